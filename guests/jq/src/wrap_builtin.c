/* jq's builtin.c, binding only the builtins that a program needs, and none that reaches outside.
 *
 * jq parses and binds all of its builtins at every compilation, which takes 25 times as long as compiling a small program.
 * Here the text of builtin.jq is cut into its definitions once; the names that the program calls are looked up, their
 * definitions parsed and searched for names in turn, and what was found so is bound in the order of the file. Definitions are found
 * by name, so all arities of a name come along, and jq drops those that are not referred to. */
#define builtins_bind builtins_bind_all
#include "builtin.c"
#undef builtins_bind
#include "host.h"

static const char no_clock[] = "an expression has no clock";
static const char no_zone[] = "an expression has no time zone but UTC";
static const char no_environment[] = "an expression has no environment";
static const char no_input[] = "an expression has one input, which is `.`";
static const char no_output[] = "an expression has no output but its result";
static const char no_modules[] = "an expression has no modules";
static const char no_list[] = "an expression cannot list them";

static const struct { const char *name, *why; } removed[] = {
  {"now", no_clock}, {"localtime", no_zone}, {"strflocaltime", no_zone},
  {"env", no_environment},
  {"input", no_input}, {"inputs", no_input}, {"input_filename", no_input}, {"input_line_number", no_input},
  {"debug", no_output}, {"stderr", no_output}, {"halt", no_output}, {"halt_error", no_output},
  {"modulemeta", no_modules}, {"get_search_list", no_modules}, {"get_prog_origin", no_modules}, {"get_jq_origin", no_modules},
  {"builtins", no_list},
};

const char *why_removed(const char *name) {
  for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++)
    if (strcmp(removed[i].name, name) == 0)
      return removed[i].why;
  return 0;
}

enum { FUNCTIONS = sizeof function_list / sizeof function_list[0], DEFINITIONS_MAX = 256, BUCKETS = 512, NAME_MAX_BYTES = 32 };

/* A definition of builtin.jq. */
struct definition {
  const char *text;
  int bytes;
  char name[NAME_MAX_BYTES];
};
static struct definition definitions[DEFINITIONS_MAX];
static int definition_count;

/* What a name stands for. A name can have several entries: its arities, in jq and in C. */
enum kind { IN_JQ, IN_C, IN_BYTECODE };
struct entry {
  const char *name;
  enum kind kind;
  int index; /* among the definitions, or in function_list */
  int next;  /* the next entry of the bucket, or -1 */
};
static struct entry entries[DEFINITIONS_MAX + FUNCTIONS + 8];
static int entry_count;
static int buckets[BUCKETS];

static unsigned bucket_of(const char *name) {
  unsigned h = 5381;
  while (*name)
    h = h * 33 + (unsigned char)*name++;
  return h % BUCKETS;
}

static void enter_name(const char *name, enum kind kind, int index) {
  if (why_removed(name))
    return;
  unsigned b = bucket_of(name);
  entries[entry_count] = (struct entry){name, kind, index, buckets[b]};
  buckets[b] = entry_count++;
}

/* A definition begins with "def " at the start of a line and extends to the next one. */
static void cut_definitions(void) {
  static const char def[] = "def ";
  const size_t def_bytes = sizeof def - 1;
  const char *end = jq_builtins + sizeof jq_builtins - 1;
  const char *begin = jq_builtins;
  while (begin < end) {
    const char *next = begin;
    do {
      next = memchr(next, '\n', end - next);
      next = next ? next + 1 : end;
    } while (next < end && strncmp(next, def, def_bytes) != 0);
    if (strncmp(begin, def, def_bytes) == 0) {
      struct definition *d = &definitions[definition_count++];
      /* Not strcspn: zig's measures the whole rest of the text first. */
      size_t n = 0;
      while (begin[def_bytes + n] != ':' && begin[def_bytes + n] != '(')
        n++;
      assert(definition_count <= DEFINITIONS_MAX && n < NAME_MAX_BYTES);
      d->text = begin;
      d->bytes = next - begin;
      memcpy(d->name, begin + def_bytes, n);
    }
    begin = next;
  }
}

static void index_builtins(void) {
  if (entry_count)
    return;
  for (int i = 0; i < BUCKETS; i++)
    buckets[i] = -1;
  cut_definitions();
  for (int i = 0; i < definition_count; i++)
    enter_name(definitions[i].name, IN_JQ, i);
  for (int i = 0; i < FUNCTIONS; i++)
    enter_name(function_list[i].name, IN_C, i);
  static const char *const bytecoded[] = {"empty", "not", "path", "last", "range"};
  for (int i = 0; i < 5; i++)
    enter_name(bytecoded[i], IN_BYTECODE, 0);
}

/* What a program needs. */
struct needs {
  unsigned char definition[DEFINITIONS_MAX], function[FUNCTIONS], bytecode;
  int todo[DEFINITIONS_MAX]; /* definitions that are needed and not parsed yet */
  int todo_count;
};

static void need(const char *name, void *context) {
  struct needs *n = context;
  for (int i = buckets[bucket_of(name)]; i >= 0; i = entries[i].next) {
    if (strcmp(entries[i].name, name) != 0)
      continue;
    int index = entries[i].index;
    switch (entries[i].kind) {
    case IN_C: n->function[index] = 1; break;
    case IN_BYTECODE: n->bytecode = 1; break;
    case IN_JQ:
      if (!n->definition[index]) {
        n->definition[index] = 1;
        n->todo[n->todo_count++] = index;
      }
    }
  }
}

static block parse_definition(jq_state *jq, const struct definition *d) {
  block parsed;
  struct locfile *source = locfile_init(jq, "<builtin>", d->text, d->bytes);
  int errors = jq_parse_library(source, &parsed);
  assert(errors == 0);
  locfile_free(source);
  return parsed;
}

int builtins_bind(jq_state *jq, block *program) {
  static block parsed[DEFINITIONS_MAX];
  static struct needs needs;

  index_builtins();
  refuse_environment(*program);
  memset(&needs, 0, sizeof needs);
  each_unbound_call(*program, need, &needs);
  while (needs.todo_count) {
    int k = needs.todo[--needs.todo_count];
    parsed[k] = parse_definition(jq, &definitions[k]);
    each_unbound_call(parsed[k], need, &needs);
  }

  block builtins = gen_noop();
  for (int k = 0; k < definition_count; k++)
    if (needs.definition[k])
      builtins = BLOCK(builtins, parsed[k]);
  if (needs.bytecode)
    builtins = bind_bytecoded_builtins(builtins);
  for (int i = 0; i < FUNCTIONS; i++)
    if (needs.function[i])
      builtins = gen_cbinding(&function_list[i], 1, builtins);
  *program = block_bind_referenced(builtins, *program, OP_IS_CALL_PSEUDO);
  return 0;
}
