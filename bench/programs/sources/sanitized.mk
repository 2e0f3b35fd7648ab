# Runs programs with a sanitizer as children of make: make -f sanitized.mk PROGRAMS=FOLDER/%-KIND.
program = $(subst %,$(1),$(PROGRAMS))

all: sound free double racing
sound:
	$(call program,blocks) 3
free double:
	-@$(call program,faulty) $@ || echo "$@: status $$?"
racing:
	-@$(call program,racing) || echo "$@: status $$?"
.PHONY: all sound free double racing
