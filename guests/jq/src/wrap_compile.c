/* jq's compile.c, and two walks over a program for which one must see its instructions. */
#include "compile.c"
#include "host.h"

void each_unbound_call(block program, void (*found)(const char *name, void *context), void *context) {
  for (inst *i = program.first; i; i = i->next) {
    if (i->symbol && !i->bound_by && (opcode_describe(i->op)->flags & OP_IS_CALL_PSEUDO))
      found(i->symbol, context);
    each_unbound_call(i->subfn, found, context);
    each_unbound_call(i->arglist, found, context);
  }
}

void refuse_environment(block program) {
  for (inst *i = program.first; i; i = i->next) {
    if (i->op == LOADV && !i->bound_by && strcmp(i->symbol, "ENV") == 0)
      note_error(i->source, jv_string("$ENV is not available: an expression has no environment"));
    refuse_environment(i->subfn);
    refuse_environment(i->arglist);
  }
}
