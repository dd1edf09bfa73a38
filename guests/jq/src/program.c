/* What stands in for jq's linker.c: a program is its text alone. There is no file, module, search path or ~/.jq. */
#include <stdlib.h>
#include <string.h>
#include "host.h"
#include "jq_parser.h"
#include "linker.h"

struct compile_errors compile_errors;

void note_error(location place, jv message) {
  struct compile_errors *e = &compile_errors;
  if (e->count == e->capacity) {
    e->capacity = e->capacity ? e->capacity * 2 : 8;
    e->items = realloc(e->items, e->capacity * sizeof *e->items);
    if (!e->items)
      abort();
  }
  struct compile_error *error = &e->items[e->count++];
  error->message = strdup(jv_get_kind(message) == JV_KIND_STRING ? jv_string_value(message) : "the program is not valid");
  int known = place.start >= 0 && place.start <= place.end && (uint32_t)place.end <= e->source_bytes;
  error->start = known ? place.start : 0;
  error->end = known ? place.end : e->source_bytes;
  jv_free(message);
}

/* The first word of a program, after white space and comments. */
static location first_word(const struct locfile *source) {
  const char *text = source->data;
  int at = 0, length = source->length;
  while (at < length && strchr(" \t\r\n#", text[at])) {
    if (text[at] == '#')
      while (at + 1 < length && text[at + 1] != '\n')
        at++;
    at++;
  }
  location word = {at, at};
  while (word.end < length && text[word.end] >= 'a' && text[word.end] <= 'z')
    word.end++;
  return word;
}

int load_program(jq_state *jq, struct locfile *source, block *program) {
  (void)jq;
  block parsed;
  int errors = jq_parse(source, &parsed);
  if (errors)
    return errors;

  inst *first = parsed.first;
  jv_free(block_take_imports(&parsed));
  if (parsed.first != first)
    note_error(first_word(source), jv_string("modules are not available: an expression is its text alone"));
  else if (!block_has_main(parsed))
    note_error(UNKNOWN_LOCATION, jv_string("there is no expression here (the input as it is would be `.`)"));
  else {
    *program = block_drop_unreferenced(parsed);
    return 0;
  }
  block_free(parsed);
  return 1;
}

jv load_module_meta(jq_state *jq, jv name) {
  (void)jq;
  jv_free(name);
  return jv_null();
}
