// What the files of the engine share. One instance serves one process: the state is global.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "script_engine.h"
#include "quickjs.h"

typedef script_engine_string_t Text;
typedef wfhost_process_types_payload_t Payload;
typedef wfhost_process_types_problem_t Problem;

extern JSRuntime *rt;
extern JSContext *ctx;
extern JSValue hooks;  // what the module "wfhost" registers: loaded, describe, init, hear, outcome, failure, rejected
extern bool loading;   // until `init` the host is not to be asked: the state depends on the sources alone
extern bool broken;    // a conversion has failed, for lack of memory or stack

// memory.c
void *need(size_t size);      // zeroed; a trap where there is none
void reserve_take(void);      // some memory kept back
void reserve_release(void);   // … so that what went wrong can still be reported

// values.c
Text text_of(const char *s, size_t len);
Text text_from(JSValueConst v);
void well_formed(uint8_t *s, size_t len);
JSValue js_text(Text t);
JSValue get(JSValueConst o, const char *name);            // an own property, never a getter of the script's
void set(JSValueConst o, const char *name, JSValue v);    // takes v
bool absent(JSValueConst v);
Text get_text(JSValueConst o, const char *name);
void get_option(JSValueConst o, const char *name, script_engine_option_string_t *out);
uint64_t number_from(JSValueConst v);
uint64_t get_number(JSValueConst o, const char *name);
bool get_bool(JSValueConst o, const char *name);
JSValue js_bytes(const uint8_t *p, size_t len);
JSValue js_json(const uint8_t *text, size_t len, const char *name);
JSValue js_payload(const Payload *p);
Payload payload_from(JSValue v);                          // takes v
JSValue js_problem(const Problem *p);
void problem_from(JSValue o, Problem *p);                 // takes o
void exception_to(const char *kind, Problem *p);          // the pending exception
JSValue call_hook(const char *name, int argc, JSValueConst *argv);

// events.c
JSValue js_event(const wfhost_process_types_event_t *e);
void outcome_from(JSValueConst o, wfhost_process_types_outcome_t *ret);

// host.c
JSValue host_functions(void);
void fuel_begin(void);        // at the start of each export: the stack, and the budget
bool ran_too_long(void);      // the program was ended because its fuel was nearly used up
int interrupt(JSRuntime *r, void *opaque);

// modules.c
typedef exports_wfhost_process_script_source_t Source;
JSModuleDef *compile_text(const char *name, const char *text, size_t len, int line, bool with_source);
JSValue evaluate(JSModuleDef *m);                         // gives its namespace
void modules_start(void);
JSValue modules_load(const Source *list, size_t count, script_engine_list_string_t *missing);
void modules_scope(JSValueConst wfhost);                  // what bodies have in scope
bool run_jobs(void);
