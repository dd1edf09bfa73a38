/* What the files of this folder share. The files of jq are used as they are: those whose behaviour changes are included by
 * a file of this folder, which renames a function of theirs and defines it anew. */
#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>
#include "jq.h"
#include "jv.h"
#include "compile.h"

/* An error found by a compilation. The message is one line, allocated with malloc. */
struct compile_error {
  char *message;
  uint32_t start, end;
};

/* The errors of the compilation that is going on: jq has no other place to hand them through. */
struct compile_errors {
  struct compile_error *items;
  size_t count, capacity;
  uint32_t source_bytes;
};
extern struct compile_errors compile_errors;

/* Notes an error. A place that is not known is the whole source. Takes the message. */
void note_error(location place, jv message);

/* Calls `found` for each name that a program calls and does not define. */
void each_unbound_call(block program, void (*found)(const char *name, void *context), void *context);

/* Notes an error for each use of $ENV that is no variable of the program's own. */
void refuse_environment(block program);

/* Why a builtin of jq is not there, or null if there is no such reason. */
const char *why_removed(const char *name);

#endif
