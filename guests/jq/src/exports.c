/* The exports of the world. The types that begin with world_ come from wit-bindgen. */
#include <stdlib.h>
#include <string.h>
#include "host.h"
#include "world.h"

/* Values under numbers. A number that is given back is given again. */
struct table {
  void **at;
  uint32_t count, capacity;
};
static struct table filters, inputs;

static uint32_t table_add(struct table *t, void *value) {
  uint32_t i = 0;
  while (i < t->count && t->at[i])
    i++;
  if (i == t->capacity) {
    t->capacity = t->capacity ? t->capacity * 2 : 16;
    t->at = realloc(t->at, t->capacity * sizeof *t->at);
    if (!t->at)
      abort();
  }
  t->at[i] = value;
  if (i == t->count)
    t->count++;
  return i;
}

static void *table_get(const struct table *t, uint32_t i) {
  if (i >= t->count || !t->at[i])
    abort();
  return t->at[i];
}

static void *table_take(struct table *t, uint32_t i) {
  void *value = table_get(t, i);
  t->at[i] = 0;
  return value;
}

static world_string_t owned(jv string) {
  world_string_t copy;
  world_string_dup_n(&copy, jv_string_value(string), jv_string_length_bytes(jv_copy(string)));
  jv_free(string);
  return copy;
}

/* The text of an error's message. Errors can be raised with any value. */
static world_string_t message_text(jv message) {
  return owned(jv_get_kind(message) == JV_KIND_STRING ? message : jv_dump_string(message, 0));
}

/* jq reports "3 compile errors" and the like here: the errors themselves went to note_error. */
static void ignore_message(void *context, jv message) {
  (void)context;
  jv_free(message);
}

static int by_place(const void *a, const void *b) {
  const struct compile_error *x = a, *y = b;
  return x->start != y->start ? (x->start < y->start ? -1 : 1) : 0;
}

static void take_errors(world_list_compile_error_t *list) {
  struct compile_errors *e = &compile_errors;
  qsort(e->items, e->count, sizeof *e->items, by_place);
  list->len = e->count;
  list->ptr = malloc(e->count * sizeof *list->ptr);
  if (!list->ptr)
    abort();
  for (size_t i = 0; i < e->count; i++) {
    struct compile_error *error = &e->items[i];
    world_string_dup(&list->ptr[i].message, error->message);
    list->ptr[i].start = error->start;
    list->ptr[i].end = error->end;
    free(error->message);
  }
  e->count = 0;
}

/* jq takes a program as a C string, so a NUL would silently end it. */
static int compile_text(jq_state *jq, const world_string_t *source) {
  const char *nul = memchr(source->ptr, 0, source->len);
  if (nul) {
    int at = nul - (const char *)source->ptr;
    note_error((location){at, at + 1}, jv_string("the text contains a NUL character"));
    return 0;
  }
  char *text = malloc(source->len + 1);
  if (!text)
    abort();
  memcpy(text, source->ptr, source->len);
  text[source->len] = 0;
  int compiled = jq_compile(jq, text);
  free(text);
  return compiled;
}

bool exports_world_compile(world_string_t *source, world_filter_t *filter, world_list_compile_error_t *errors) {
  jq_state *jq = jq_init();
  jq_set_error_cb(jq, ignore_message, 0);
  jq_set_debug_cb(jq, ignore_message, 0);
  jq_set_stderr_cb(jq, ignore_message, 0);
  compile_errors.source_bytes = source->len;
  int compiled = compile_text(jq, source);
  world_string_free(source);
  if (compiled && compile_errors.count == 0) {
    *filter = table_add(&filters, jq);
    return true;
  }
  if (compile_errors.count == 0)
    note_error(UNKNOWN_LOCATION, jv_string("the program cannot be compiled"));
  jq_teardown(&jq);
  take_errors(errors);
  return false;
}

void exports_world_drop_filter(world_filter_t filter) {
  jq_state *jq = table_take(&filters, filter);
  jq_teardown(&jq);
}

bool exports_world_load(world_string_t *json, world_input_t *input, world_string_t *error) {
  jv value = jv_parse_sized((const char *)json->ptr, json->len);
  world_string_free(json);
  if (!jv_is_valid(value)) {
    jv message = jv_invalid_get_msg(value);
    *error = message_text(jv_get_kind(message) == JV_KIND_NULL ? jv_string("there is no value") : message);
    return false;
  }
  jv *boxed = malloc(sizeof *boxed);
  if (!boxed)
    abort();
  *boxed = value;
  *input = table_add(&inputs, boxed);
  return true;
}

void exports_world_unload(world_input_t input) {
  jv *boxed = table_take(&inputs, input);
  jv_free(*boxed);
  free(boxed);
}

/* The outputs so far. */
struct outputs {
  world_list_string_t list;
  size_t capacity;
  uint64_t bytes;
};

static void outputs_add(struct outputs *o, world_string_t text) {
  if (o->list.len == o->capacity) {
    o->capacity = o->capacity ? o->capacity * 4 : 4;
    o->list.ptr = realloc(o->list.ptr, o->capacity * sizeof *o->list.ptr);
    if (!o->list.ptr)
      abort();
  }
  o->list.ptr[o->list.len++] = text;
  o->bytes += text.len;
}

static bool collect(jq_state *jq, uint32_t max_outputs, uint32_t max_bytes, struct outputs *o, world_problem_t *problem) {
  jv value;
  while (jv_is_valid(value = jq_next(jq))) {
    if (o->list.len == max_outputs) {
      jv_free(value);
      problem->tag = WORLD_PROBLEM_OUTPUT_LIMIT;
      return false;
    }
    outputs_add(o, owned(jv_dump_string(value, 0)));
    if (o->bytes > max_bytes) {
      problem->tag = WORLD_PROBLEM_OUTPUT_LIMIT;
      return false;
    }
  }
  bool failed = jv_invalid_has_msg(jv_copy(value));
  jv message = jv_invalid_get_msg(value);
  if (failed) {
    problem->tag = WORLD_PROBLEM_FAILED;
    problem->val.failed = message_text(message);
    return false;
  }
  jv_free(message);
  return true;
}

bool exports_world_eval(world_filter_t filter, world_input_t input, uint32_t max_outputs, uint32_t max_bytes,
                        world_list_string_t *outputs, world_problem_t *problem) {
  jq_state *jq = table_get(&filters, filter);
  const jv *value = table_get(&inputs, input);
  struct outputs o = {0};
  jq_start(jq, jv_copy(*value), 0);
  bool done = collect(jq, max_outputs, max_bytes, &o, problem);
  jq_start(jq, jv_null(), 0); /* lets go of what is left on its stack */
  if (done)
    *outputs = o.list;
  else
    world_list_string_free(&o.list);
  return done;
}
