;;; Positions of a board game in a hash table. A visit looks some up and learns new ones.
(defparameter *positions* (make-hash-table :test 'equal))

(defun board (number)
  (format nil "~36r-~36r" (* number 2654435761) (logxor number 48271)))

(dotimes (number 260000)
  (setf (gethash (board number) *positions*) (list number (mod number 97) (make-list 6))))

(defun visit (round)
  (let ((score 0))
    (dotimes (i 40000 score)
      (let ((entry (gethash (board (if (< i 32000) i (mod (+ (* round 30011) i) 260000))) *positions*)))
        (when entry (incf score (second entry)) (setf (second entry) (mod (+ round i) 97)))))
    (dotimes (i 1000)
      (setf (gethash (board (+ 260000 (* round 1000) i)) *positions*) (list i 0 nil)))
    score))

(format t "ready~%")
(finish-output)
(loop for line = (read-line *standard-input* nil)
      while line
      do (format t "done ~d~%" (visit (parse-integer line :start (1+ (position #\Space line)))))
         (finish-output))
