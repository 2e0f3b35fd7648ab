;;; visit.el --- Emacs with many files open.  -*- lexical-binding: t; -*-
;; Started with --batch. A visit edits, searches and fontifies some of the buffers.

(require 'subr-x)
(setq gc-cons-threshold 20000000)

(defconst lab-sources
  (seq-take (directory-files-recursively (expand-file-name "../lisp" data-directory) "\\.elc\\'") 400))

(defun lab-open (file)
  "Open FILE in a buffer, with an outline of the words in it."
  (let ((buffer (generate-new-buffer (file-name-nondirectory file)))
        (words (make-hash-table :test 'equal)))
    (with-current-buffer buffer
      (insert-file-contents file)
      (while (re-search-forward "[a-z]\\{4,\\}" nil t)
        (push (point) (gethash (match-string 0) words)))
      (setq-local lab-words words))
    buffer))

(defvar lab-words)
(defvar lab-buffers (vconcat (mapcar #'lab-open lab-sources)))

(defun lab-visit (round)
  "Work on the buffers in front and on some of ROUND."
  (let ((found 0) (count (length lab-buffers)))
    (dotimes (i 40)
      (with-current-buffer (aref lab-buffers (if (< i 28) i (mod (+ (* round 17) i) count)))
        (goto-char (point-max))
        (insert (format "\n;; round %d\n" round))
        (goto-char (point-min))
        (while (search-forward "buffer" nil t) (setq found (1+ found)))
        (setq found (+ found (length (gethash "defun" lab-words))))))
    found))

(princ "ready\n")
(let (line)
  (while (setq line (ignore-errors (read-from-minibuffer "")))
    (princ (format "done %d\n" (lab-visit (string-to-number (cadr (split-string line))))))))
