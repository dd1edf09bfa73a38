// wfhost.h: guests of wfhost in C. One header, no library; README.md tells how to use and build it.
//
//     #include "wfhost.h"
//
//     WF_TASK(run, { wf_future page; }) {
//         WF_BEGIN;
//         s->page = wf_call("http", wf_json("{url: %s}", wf_text(wf_get(wf_input(), "url"))));
//         WF_AWAIT(s->page);
//         WF_RETURN(wf_get(wf_value_of(s->page), "status"));
//         WF_END;
//     }
//     WF_EXPORT("Fetches a page.", { run, "Returns the status." })
//
// A task is a function that is entered again where it waited. Its variables are lost then, except
// those declared in braces, which are members of `s`. A guest of several files defines WF_HEADER
// before the include in all files but one.
//
// Memory: what `wf_json` and its kin make lives until the task ends (or until `wf_release`), what a
// future brought until that is dropped or its task ends. Nothing is freed by hand.
#ifndef WFHOST_H
#define WFHOST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// ---- The contract, wit/process.wit: these types have the layout of the canonical ABI. ----

typedef struct { const char *ptr; size_t len; } wf_str;
typedef struct { uint8_t some; wf_str val; } wf_opt_str;
typedef struct { uint8_t some; uint64_t val; } wf_opt_u64;

enum { WF_PAYLOAD_JSON, WF_PAYLOAD_BYTES, WF_PAYLOAD_BLOB };
typedef struct {
    uint8_t tag;
    union { wf_str text; struct { wf_str digest; uint64_t size; wf_str media_type; } blob; };
} wf_payload;

typedef enum { WF_DEFINITE, WF_RETRYABLE, WF_UNCERTAIN } wf_class;
typedef struct {
    wf_str kind, title;
    uint16_t status;
    wf_opt_str detail;
    uint8_t class_;
    wf_opt_u64 retry_after;
    wf_opt_str data;
} wf_problem;

enum { WF_SENDER_CHILD, WF_SENDER_PROCESS, WF_SENDER_CALL, WF_SENDER_OUTSIDE };
typedef struct { uint8_t tag; union { uint64_t id; wf_str outside; }; } wf_sender;

enum { WF_TARGET_PROCESS, WF_TARGET_CHILD, WF_TARGET_NAME, WF_TARGET_RUN };
typedef struct {
    uint8_t tag;
    union { uint64_t id; wf_str name; struct { wf_str run, name; } run; };
} wf_target;

typedef struct { wf_sender sender; wf_str topic; wf_payload body; } wf_message;
typedef enum { WF_COMPLETED, WF_FAILED, WF_CANCELLED } wf_ended;
typedef struct { uint8_t tag; union { wf_problem failed; wf_str cancelled; }; } wf_ending;
typedef struct { uint64_t pid, by; wf_ending ending; } wf_exit;
typedef struct { uint8_t failed; union { wf_payload ok; wf_problem err; }; } wf_answer;
typedef struct { uint64_t tag; wf_answer answer; } wf_completion;
typedef struct { wf_str reason; uint64_t grace; } wf_cancellation;

enum { WF_EVENT_COMPLETED, WF_EVENT_MESSAGE, WF_EVENT_EXITED, WF_EVENT_CANCEL };
typedef struct {
    uint8_t tag;
    union { wf_completion completed; wf_message message; wf_exit exited; wf_cancellation cancel; };
} wf_event;

enum {
    WF_DO_SLEEP, WF_DO_SPAWN, WF_DO_CALL, WF_DO_SEND, WF_DO_CANCEL, WF_DO_STOP,
    WF_DO_MONITOR, WF_DO_LINK, WF_DO_UNLINK, WF_DO_REGISTER, WF_DO_EXPOSE,
};
typedef struct {
    wf_opt_str component;
    wf_str entry;
    wf_payload input;
    wf_opt_str name;
    uint8_t link, detached;
    wf_opt_str narrow;
} wf_do_spawn;
typedef struct { wf_str handler; wf_payload args; wf_opt_u64 timeout; wf_opt_str key; } wf_do_call;
typedef struct { wf_target to; wf_str topic; wf_payload body; } wf_do_send;
typedef struct { wf_str query; wf_payload value; } wf_do_expose;
typedef struct {
    uint8_t tag;
    union {
        uint64_t number;  // of a sleep and a cancel
        wf_do_spawn spawn;
        wf_do_call call;
        wf_do_send send;
        wf_target target;  // of a stop, monitor, link, unlink
        wf_str name;       // of a register
        wf_do_expose expose;
    };
} wf_action;
typedef struct { uint64_t tag; wf_action action; } wf_command;

enum { WF_READY, WF_BLOCKED, WF_IDLE, WF_STATUS_COMPLETE, WF_STATUS_FAILED, WF_STATUS_RENEW };
typedef struct {
    uint8_t tag;
    union { wf_payload complete; wf_problem failed; struct { wf_str entry; wf_payload input; } renew; };
} wf_status;
typedef struct { wf_status status; wf_command *commands; size_t count; } wf_outcome;
typedef struct { wf_str run; uint64_t pid, next_tag; } wf_identity;
typedef enum { WF_TRACE, WF_DEBUG, WF_INFO, WF_WARN, WF_ERROR } wf_level;

// ---- Values: JSON, bytes and blobs. ----

typedef enum { WF_NULL, WF_BOOL, WF_NUMBER, WF_TEXT, WF_LIST, WF_OBJECT, WF_BYTES, WF_BLOB } wf_type;
typedef const struct wf_node *wf_value;
struct wf_node {
    wf_type type;
    size_t len;         // bytes of `text`, or members
    const char *text;   // text, bytes, a number as it is written, a blob's digest; NUL-terminated
    const char *media;  // of a blob
    int64_t number;     // a boolean, a blob's size
    size_t key_len;
    const char *key;            // in an object
    struct wf_node *first, *last;  // members
    struct wf_node *next;
};

// Members of a value. One that is absent, or of another type, reads as null: chains are safe.
wf_value wf_get(wf_value of, const char *key);
wf_value wf_at(wf_value of, size_t index);
size_t wf_len(wf_value of);  // members of a list or object, bytes of a text
wf_type wf_type_of(wf_value of);
bool wf_is(wf_value of, const char *text);
const char *wf_text(wf_value of);                // "" if it is no text
bool wf_bool(wf_value of);                       // false if it is no boolean
bool wf_integer(wf_value of, int64_t *integer);  // false if it is no integer that fits
int64_t wf_int(wf_value of);                     // 0 if it is no integer that fits
double wf_number_of(wf_value of);                // 0 if it is no number

// A value from a template: JSON in which names need no quotes, texts may have single ones, and
// %s is a text, %d an int, %l an int64_t, %b a bool, %v a wf_value. A mistake in it ends the task.
wf_value wf_json(const char *template_, ...);
wf_value wf_parse(const char *json, size_t len);  // NULL if it is not JSON
wf_value wf_number(double number);
wf_value wf_string(const char *text);
wf_value wf_bytes(const void *bytes, size_t len);
struct wf_node *wf_list(void);
struct wf_node *wf_object(void);
void wf_push(struct wf_node *list, wf_value member);  // copies the member's head
void wf_set(struct wf_node *object, const char *key, wf_value member);
const char *wf_print(wf_value value);  // its JSON text
const char *wf_format(const char *template_, ...);  // a text, with the % of wf_json

void *wf_alloc(size_t size);  // zeroed, until the task ends
typedef struct { void *chunk; size_t used; uint64_t serial; } wf_mark;
wf_mark wf_marked(void);      // for loops: values and futures made since a mark …
void wf_release(wf_mark mark);  // … are released, pending ones cancelled

// ---- Time. ----

typedef uint64_t wf_micros;
#define WF_MS(n) ((wf_micros)(n) * 1000u)
#define WF_SECONDS(n) ((wf_micros)(n) * 1000000u)
#define WF_MINUTES(n) WF_SECONDS((n) * 60u)
#define WF_HOURS(n) WF_SECONDS((n) * 3600u)

// ---- Futures. They belong to the task that made them; when it ends, the pending ones are cancelled. ----

typedef struct wf_slot *wf_future;
typedef struct wf_task wf_task;
typedef struct wf_body wf_body;

bool wf_ready(wf_future of);                      // answered, well or not
bool wf_failed(wf_future of);                     // answered with a problem
wf_value wf_value_of(wf_future of);               // its answer; null while there is none
const wf_problem *wf_problem_of(wf_future of);    // NULL unless it failed
bool wf_problem_is(wf_future of, const char *kind);
void wf_cancel(wf_future of);  // gives it up: it fails as `cancelled`
void wf_drop(wf_future *of);   // gives it up and frees it

wf_future wf_sleep(wf_micros time);
wf_future wf_never(void);  // nothing answers it

typedef struct { wf_micros timeout; const char *key; } wf_call_options;
wf_future wf_call_(const char *handler, wf_value args, wf_call_options options);
// wf_call(handler, args, .timeout = WF_SECONDS(30), .key = "once")
#define wf_call(handler, ...) WF_CALL_(handler, __VA_ARGS__, )
#define WF_CALL_(handler, args, ...) wf_call_((handler), (args), (wf_call_options){__VA_ARGS__})
wf_future wf_signal(const char *name, wf_micros timeout);  // a timeout of 0 is none

typedef struct { const char *component, *name; bool link, detached; wf_value narrow; } wf_spawn_options;
wf_future wf_spawn_(const char *entry, wf_value input, wf_spawn_options options);
// wf_spawn(entry, input, .component = …, .name = …, .link = true, .detached = true, .narrow = …)
#define wf_spawn(entry, ...) WF_SPAWN_(entry, __VA_ARGS__, )
#define WF_SPAWN_(entry, input, ...) wf_spawn_((entry), (input), (wf_spawn_options){__VA_ARGS__})

wf_target wf_child(wf_future spawned);
wf_target wf_process(uint64_t pid);
wf_target wf_named(const char *name);
wf_target wf_in_run(const char *run, const char *name);
wf_sender wf_from_child(wf_future spawned);
wf_future wf_exited(wf_future spawned);  // the end of a linked child

void wf_send(wf_target to, const char *topic, wf_value body);  // a refusal is logged as a warning
// Fails if the message is refused, which is known one step later. It is never answered otherwise.
wf_future wf_send_watched(wf_target to, const char *topic, wf_value body);
typedef struct { const char *topic; const wf_sender *from; } wf_receive_options;
wf_future wf_receive_(wf_receive_options options);
// wf_receive(.topic = "news", .from = &sender): its value is the body.
#define wf_receive(...) wf_receive_((wf_receive_options){__VA_ARGS__})
const char *wf_topic_of(wf_future received);
wf_sender wf_sender_of(wf_future received);
bool wf_reply_to(wf_future received, wf_target *to);  // false if a process did not send it

wf_future wf_monitor(wf_target target);  // the end of another: wf_exit_of tells which
wf_future wf_link(wf_target target);     // likewise, and an ending of one that is no completion cancels the other
wf_ended wf_exit_of(wf_future exited);
const wf_problem *wf_exit_problem(wf_future exited);  // NULL unless it ended WF_FAILED
void wf_unlink(wf_target target);
void wf_stop(wf_target target);
wf_future wf_register(const char *name);
void wf_expose(const char *query, wf_value value);
wf_future wf_cancelled(void);  // while one exists, the guest ends itself within the grace period
const char *wf_cancel_reason(wf_future cancelled);
wf_micros wf_cancel_grace(wf_future cancelled);

wf_future wf_all_n(size_t count, const wf_future *of);   // all answered: a list; fails with the first that fails
wf_future wf_any_n(size_t count, const wf_future *of);   // one answered: see wf_winner
wf_future wf_race_n(size_t count, const wf_future *of);  // likewise, and the others are cancelled
#define wf_all(...) WF_SET_(wf_all_n, __VA_ARGS__)
#define wf_any(...) WF_SET_(wf_any_n, __VA_ARGS__)
#define wf_race(...) WF_SET_(wf_race_n, __VA_ARGS__)
#define WF_SET_(make, ...) make(sizeof((wf_future[]){__VA_ARGS__}) / sizeof(wf_future), (wf_future[]){__VA_ARGS__})
size_t wf_winner(wf_future any);
// A task for each item of a list, at most `limit` at a time (0: all at once). Its value is the list
// of what they return, in order; it fails with the first that fails, and gives up the others.
wf_future wf_map(size_t limit, wf_value items, const wf_body *body);
uint64_t wf_order(wf_future of);  // futures that were answered earlier have a smaller number
wf_future wf_timeout(wf_future of, wf_micros limit);  // its answer, or the problem `timeout`

void wf_log(wf_level level, const char *template_, ...);  // with the % of wf_json
void wf_log_with(wf_level level, const char *text, wf_value fields);
wf_micros wf_now(void);  // since 1970, of this batch
void wf_random(void *into, size_t len);
uint64_t wf_pid(void);
const char *wf_run_id(void);

// ---- Tasks. ----

struct wf_body { const char *name; size_t size; void (*poll)(void *); };
typedef struct { const wf_body *body; const char *description, *input, *output, *name; } wf_entry;

wf_value wf_input(void);                                // of the task that runs
wf_future wf_start(const wf_body *body, wf_value input);  // another task of this process

#define WF_TASK(task, ...) \
    struct task##_state __VA_ARGS__; \
    static void task##_run(struct task##_state *s); \
    static void task##_poll(void *state) { task##_run((struct task##_state *)state); } \
    static const wf_body task[1] = {{#task, sizeof(struct task##_state), task##_poll}}; \
    static void task##_run(struct task##_state *s)

// WF_EXPORT("What it does.", { task, "What the entry does.", "JSON Schema of input", "of output" }, …)
// The input is checked against type, required, properties and items of its schema: `bad-input`.
// All but the task may be left out; `.name = "…"` names the entry other than the task.
#define WF_EXPORT(text, ...) \
    _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
    const char wf_description[] = text; \
    const wf_entry wf_entries[] = {__VA_ARGS__}; \
    const size_t wf_entry_count = sizeof(wf_entries) / sizeof(wf_entries[0]);
extern const char wf_description[];
extern const wf_entry wf_entries[];
extern const size_t wf_entry_count;

// A task is one `switch` over the line where it waits; hence `s`, and hence no WF_AWAIT within
// another `switch`, and not two on a line.
#define WF_BEGIN \
    (void)s; \
    switch (wf_resume_()) { \
    case 0:
#define WF_END \
    WF_RETURN(NULL); \
    default: wf_throw_("A task waits within a switch of its own", __FILE__, (unsigned)wf_resume_()); \
    }
#define WF_FINISH(value) WF_RETURN(value); WF_END
#define WF_RETURN(value) do { wf_return_(value); return; } while (0)
// Waits for a future, which is evaluated once. If it fails, so does the task.
#define WF_AWAIT(future) \
    do { WF_WAIT_(future); if (wf_rethrow_(WF_AWAITED)) return; } while (0)
// The same, and its value.
#define WF_GET(into, future) do { WF_AWAIT(future); (into) = wf_value_of(WF_AWAITED); } while (0)
// Waits for a future, failed or not: ask `wf_failed`.
#define WF_TRY(future) do { WF_WAIT_(future); } while (0)
#define WF_AWAIT2(a, b) WF_AWAIT(wf_all((a), (b)))
#define WF_AWAITED (*wf_awaited_())
#define WF_WAIT_(future) \
    WF_AWAITED = (future); \
    __attribute__((fallthrough)); \
    case __LINE__: if (wf_pending_(WF_AWAITED, __LINE__)) return
// Lets other processes run: the host steps this one again at once.
#define WF_YIELD do { wf_yield_(__LINE__); return; case __LINE__:; } while (0)
// Goes on as a fresh instance with an empty history.
#define WF_RENEW(entry, input) do { wf_renew_((entry), (input)); return; } while (0)

typedef struct {
    const char *detail;
    unsigned status;
    wf_class class_;
    wf_micros retry_after;
    wf_value data;  // an object
} wf_fail_options;
// WF_FAIL("out-of-stock", "Sold out", .detail = "…", .status = 409, .class_ = WF_RETRYABLE)
#define WF_FAIL(kind, ...) WF_FAIL_(kind, __VA_ARGS__, )
#define WF_FAIL_(kind, title, ...) \
    do { wf_fail_((kind), (title), (wf_fail_options){__VA_ARGS__}); return; } while (0)
// Fails with the problem of a future.
#define WF_RETHROW(future) do { wf_rethrow_(future); return; } while (0)
// Ends the task as `exception` with this text and place.
#define WF_THROW(text) do { wf_throw_((text), __FILE__, __LINE__); return; } while (0)
// The same, unless the condition holds.
#define WF_ASSERT(condition) do { if (!(condition)) WF_THROW("it does not hold that " #condition); } while (0)
// Adds, subtracts, multiplies integers, and ends the task as `exception` where the result does not fit.
#define WF_ADD(into, a, b) WF_ASSERT(!__builtin_add_overflow((a), (b), (into)))
#define WF_SUB(into, a, b) WF_ASSERT(!__builtin_sub_overflow((a), (b), (into)))
#define WF_MUL(into, a, b) WF_ASSERT(!__builtin_mul_overflow((a), (b), (into)))

int wf_resume_(void);
bool wf_pending_(wf_future of, int line);
wf_future *wf_awaited_(void);
bool wf_rethrow_(wf_future of);
void wf_return_(wf_value output);
void wf_yield_(int line);
void wf_renew_(const char *entry, wf_value input);
void wf_fail_(const char *kind, const char *title, wf_fail_options options);
void wf_throw_(const char *what, const char *file, unsigned line);

// ---- What a host calls; used by the exports, and by tests. ----

typedef struct wf_proc wf_proc;
wf_proc *wf_proc_new(void);
void wf_proc_use(wf_proc *process);  // the process that everything above is about
void wf_proc_free(wf_proc *process);
bool wf_proc_init(wf_str entry, const wf_payload *input, wf_problem *problem);  // true if it fails
void wf_proc_step(const wf_event *events, size_t count, wf_outcome *outcome);
wf_str wf_proc_describe(void);

// The imports: the component's on WebAssembly, the test host's elsewhere.
void wf_host_log(wf_level level, wf_str text, wf_opt_str fields);
void wf_host_whoami(wf_identity *identity);
wf_micros wf_host_now(void);
void wf_host_random(void *into, uint32_t len);  // at most 4,096 bytes

#endif  // WFHOST_H


#if !defined(WF_HEADER) && !defined(WF_IMPLEMENTED)
#define WF_IMPLEMENTED

// Not stdlib.h: tasks may have names like `random` and `div`.
void *malloc(size_t);
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
void free(void *);
double strtod(const char *restrict, char **restrict);

enum { WF_DEPTH_MAX = 100, WF_BUCKETS = 256 };

_Noreturn static void wf_die_(const char *why) {
    wf_host_log(WF_ERROR, (wf_str){why, strlen(why)}, (wf_opt_str){0});
    __builtin_trap();
}

// ---- Arenas ----

typedef struct wf_chunk { struct wf_chunk *next; size_t size, used; } wf_chunk;
typedef struct { wf_chunk *head; } wf_arena;

static void *wf_take_(wf_arena *arena, size_t size) {
    if (size > SIZE_MAX / 4) wf_die_("out of memory");
    size = (size + 15) & ~(size_t)15;
    wf_chunk *chunk = arena->head;
    if (!chunk || chunk->size - chunk->used < size) {
        // A chunk doubles from 512 bytes to 64 KiB: small tasks stay small.
        size_t room = chunk ? chunk->size * 2 : 512;
        if (room > 65536) room = 65536;
        if (room < size) room = size;
        size_t head = (sizeof(wf_chunk) + 15) & ~(size_t)15;
        chunk = malloc(head + room);
        if (!chunk) wf_die_("out of memory");
        *chunk = (wf_chunk){arena->head, room, 0};
        arena->head = chunk;
    }
    char *at = (char *)chunk + ((sizeof(wf_chunk) + 15) & ~(size_t)15) + chunk->used;
    chunk->used += size;
    return memset(at, 0, size);
}

static void wf_free_(wf_arena *arena) {
    for (wf_chunk *chunk = arena->head, *next; chunk; chunk = next) next = chunk->next, free(chunk);
    arena->head = NULL;
}

// The length of the UTF-8 sequence at a place, 0 if it is none.
static size_t wf_utf8_(const unsigned char *at, size_t left) {
    unsigned char first = at[0];
    size_t len = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3
               : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    if (len == 0 || len > left) return 0;
    for (size_t i = 1; i < len; i++) if ((at[i] & 0xc0) != 0x80) return 0;
    if (len == 3 && ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f))) return 0;
    if (len == 4 && ((first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f))) return 0;
    return len;
}

// A copy that is UTF-8, as the contract demands: bytes that are not become question marks.
static wf_str wf_copy_(wf_arena *arena, const char *text, size_t len) {
    char *copy = wf_take_(arena, len + 1);
    if (len) memcpy(copy, text, len);
    for (size_t i = 0; i < len;) {
        size_t step = wf_utf8_((unsigned char *)copy + i, len - i);
        if (!step) copy[i] = '?';
        i += step ? step : 1;
    }
    return (wf_str){copy, len};
}
static wf_str wf_copy_text_(wf_arena *arena, const char *text) { return wf_copy_(arena, text, text ? strlen(text) : 0); }
static wf_opt_str wf_copy_opt_(wf_arena *arena, wf_opt_str from) {
    if (from.some) from.val = wf_copy_(arena, from.val.ptr, from.val.len);
    return from;
}
static wf_opt_str wf_some_(wf_arena *arena, const char *text) {
    return text ? (wf_opt_str){1, wf_copy_text_(arena, text)} : (wf_opt_str){0};
}
static wf_str wf_copy_raw_(wf_arena *arena, wf_str from) {
    char *copy = wf_take_(arena, from.len + 1);
    if (from.len) memcpy(copy, from.ptr, from.len);
    return (wf_str){copy, from.len};
}
static wf_problem wf_copy_problem_(wf_arena *arena, const wf_problem *from) {
    wf_problem copy = *from;
    copy.kind = wf_copy_(arena, from->kind.ptr, from->kind.len);
    copy.title = wf_copy_(arena, from->title.ptr, from->title.len);
    copy.detail = wf_copy_opt_(arena, from->detail);
    copy.data = wf_copy_opt_(arena, from->data);
    return copy;
}
static wf_payload wf_copy_payload_(wf_arena *arena, const wf_payload *from) {
    wf_payload copy = *from;
    if (from->tag != WF_PAYLOAD_BLOB) {
        copy.text = wf_copy_raw_(arena, from->text);
    } else {
        copy.blob.digest = wf_copy_raw_(arena, from->blob.digest);
        copy.blob.media_type = wf_copy_raw_(arena, from->blob.media_type);
    }
    return copy;
}

// ---- The process ----

enum { WF_OF_ANSWER, WF_OF_RECEIVE, WF_OF_EXIT, WF_OF_CANCEL, WF_OF_TASK, WF_OF_ALL, WF_OF_ANY, WF_OF_RACE, WF_OF_TIMEOUT };

struct wf_slot {
    uint8_t kind, state;  // state: 0 pending, 1 answered, 2 failed
    bool keep;            // dropping it cancels nothing
    bool parsed;
    uint64_t tag, serial, order;
    wf_task *owner, *waiter;
    struct wf_slot *parent;            // the set that it is a member of
    struct wf_slot *prev, *next;       // of its owner
    struct wf_slot *bucket, *waiting;  // those of the same hash; receivers and listeners
    wf_arena arena;
    wf_payload payload;
    wf_problem problem;
    wf_value value;
    // A receiver's filter, or its message.
    wf_opt_str topic;
    bool from_one;
    wf_sender sender;
    uint8_t ended;
    wf_cancellation cancellation;
    struct wf_slot *exit;  // of a linked child
    wf_task *task;
    size_t count, winner, done;
    struct wf_slot **set;
    wf_value items;  // of a map: those without a task
    const wf_body *body;
};

struct wf_task {
    const wf_body *body;
    void *state;
    int resume;
    wf_value input;
    wf_arena arena;
    struct wf_slot *first, *last;
    struct wf_slot *future;  // NULL for the entry's own task
    struct wf_slot *awaited;
    wf_task *queue;
    bool queued, waits, ended;
    uint8_t outcome;  // of `ended`: a WF_STATUS_*
    wf_status status;
    bool faulted;
    wf_problem fault;
};

typedef struct wf_letter { struct wf_letter *next; wf_arena arena; wf_message message; } wf_letter;

struct wf_proc {
    wf_task *root, *self, *queue_first, *queue_last, *yielded;
    uint64_t next_tag, serial;
    wf_command *commands;
    size_t count, room;
    wf_arena out;
    struct wf_slot *buckets[WF_BUCKETS], *waiting;
    wf_letter *mail;
    bool cancel_came, cancel_heard;
    wf_cancellation cancellation;
    wf_arena kept;
    wf_status status;
    char run[128];
};

static wf_proc *wf_p;

static wf_arena *wf_here_(void) { return wf_p->self ? &wf_p->self->arena : &wf_p->kept; }

void *wf_alloc(size_t size) { return wf_take_(wf_here_(), size); }

static void wf_wake_(wf_task *task) {
    if (!task || task->queued) return;
    task->queued = true;
    task->queue = NULL;
    if (wf_p->queue_last) wf_p->queue_last->queue = task; else wf_p->queue_first = task;
    wf_p->queue_last = task;
}

static wf_action *wf_issue_(uint8_t tag) {
    if (wf_p->count == wf_p->room) {
        wf_p->room = wf_p->room ? wf_p->room * 2 : 16;
        wf_p->commands = realloc(wf_p->commands, wf_p->room * sizeof(wf_command));
        if (!wf_p->commands) wf_die_("out of memory");
    }
    wf_command *command = &wf_p->commands[wf_p->count++];
    memset(command, 0, sizeof *command);
    command->tag = wf_p->next_tag++;
    command->action.tag = tag;
    return &command->action;
}

static struct wf_slot *wf_slot_(uint8_t kind, uint64_t tag) {
    struct wf_slot *slot = calloc(1, sizeof *slot);
    if (!slot) wf_die_("out of memory");
    wf_task *owner = wf_p->self;
    slot->kind = kind;
    slot->tag = tag;
    slot->serial = ++wf_p->serial;
    slot->owner = owner;
    slot->prev = owner->last;
    if (owner->last) owner->last->next = slot; else owner->first = slot;
    owner->last = slot;
    if (kind == WF_OF_ANSWER || kind == WF_OF_EXIT) {
        slot->bucket = wf_p->buckets[tag % WF_BUCKETS];
        wf_p->buckets[tag % WF_BUCKETS] = slot;
    } else if (kind == WF_OF_RECEIVE || kind == WF_OF_CANCEL) {
        struct wf_slot **end = &wf_p->waiting;
        while (*end) end = &(*end)->waiting;
        *end = slot;
    }
    return slot;
}

static struct wf_slot *wf_await_command_(void) { return wf_slot_(WF_OF_ANSWER, wf_p->next_tag - 1); }

static struct wf_slot *wf_find_(uint8_t kind, uint64_t tag) {
    struct wf_slot *slot = wf_p->buckets[tag % WF_BUCKETS];
    while (slot && (slot->tag != tag || slot->kind != kind)) slot = slot->bucket;
    return slot;
}

// Removes a slot from where events look for it.
static void wf_unhook_(struct wf_slot *slot) {
    struct wf_slot **at = &wf_p->buckets[slot->tag % WF_BUCKETS];
    for (; *at; at = &(*at)->bucket) if (*at == slot) { *at = slot->bucket; break; }
    for (at = &wf_p->waiting; *at; at = &(*at)->waiting) if (*at == slot) { *at = slot->waiting; break; }
    slot->bucket = slot->waiting = NULL;
}

static void wf_give_up_(struct wf_slot *slot);
static void wf_map_next_(struct wf_slot *map);
static void wf_settle_(struct wf_slot *slot, uint8_t state);

static wf_problem wf_make_problem_(wf_arena *arena, const char *kind, const char *title, const char *detail) {
    return (wf_problem){.kind = wf_copy_text_(arena, kind), .title = wf_copy_text_(arena, title), .detail = wf_some_(arena, detail)};
}

static void wf_settle_failed_(struct wf_slot *slot, const wf_problem *problem) {
    slot->problem = wf_copy_problem_(&slot->arena, problem);
    wf_settle_(slot, 2);
}

// A member of a set was settled.
static void wf_member_(struct wf_slot *set, struct wf_slot *member) {
    if (set->state) return;
    if (set->kind == WF_OF_ALL) {
        if (member->state == 2) {
            wf_settle_failed_(set, &member->problem);
            for (size_t i = 0; set->body && i < set->count; i++) if (set->set[i]) wf_give_up_(set->set[i]);
            return;
        }
        if (set->items) wf_map_next_(set);
        if (++set->done == set->count) wf_settle_(set, 1);
        return;
    }
    for (set->winner = 0; set->set[set->winner] != member;) set->winner++;
    if (set->kind == WF_OF_TIMEOUT && set->winner == 1) {
        wf_problem late = wf_make_problem_(&set->arena, "timeout", "The time is over", NULL);
        late.class_ = WF_RETRYABLE;
        set->problem = late;
        wf_settle_(set, 2);
    } else if (set->kind == WF_OF_TIMEOUT) {
        set->payload = wf_copy_payload_(&set->arena, &member->payload);
        if (member->state == 2) wf_settle_failed_(set, &member->problem); else wf_settle_(set, 1);
    } else {
        wf_settle_(set, 1);
    }
    if (set->kind == WF_OF_ANY) return;
    for (size_t i = 0; i < set->count; i++) if (set->set[i] && set->set[i] != member) wf_give_up_(set->set[i]);
}

static void wf_settle_(struct wf_slot *slot, uint8_t state) {
    if (slot->state) return;
    slot->state = state;
    slot->order = ++wf_p->serial;
    wf_unhook_(slot);
    wf_wake_(slot->waiter);
    if (slot->parent) wf_member_(slot->parent, slot);
}

static void wf_end_task_(wf_task *task);

static void wf_give_up_(struct wf_slot *slot) {
    if (slot->state) return;
    struct wf_slot *parent = slot->parent;
    if (slot->kind == WF_OF_ANSWER && !slot->keep) wf_issue_(WF_DO_CANCEL)->number = slot->tag;
    if (slot->kind == WF_OF_TASK && slot->task && slot->task != wf_p->self) {
        wf_end_task_(slot->task);
        slot->task = NULL;
    }
    if (slot->count && slot->kind != WF_OF_ANY) {
        slot->state = 2;
        for (size_t i = 0; i < slot->count; i++) if (slot->set[i]) wf_give_up_(slot->set[i]);
        slot->state = 0;
    }
    (void)parent;
    slot->problem = wf_make_problem_(&slot->arena, "cancelled", "It was given up", NULL);
    wf_settle_(slot, 2);
}

static void wf_free_slot_(struct wf_slot *slot) {
    wf_unhook_(slot);
    for (size_t i = 0; i < slot->count; i++) if (slot->set[i]) slot->set[i]->parent = NULL;  // its members go on
    if (slot->parent)
        for (size_t i = 0; i < slot->parent->count; i++) if (slot->parent->set[i] == slot) slot->parent->set[i] = NULL;
    if (slot->prev) slot->prev->next = slot->next; else slot->owner->first = slot->next;
    if (slot->next) slot->next->prev = slot->prev; else slot->owner->last = slot->prev;
    if (slot->owner->awaited == slot) slot->owner->awaited = NULL;
    wf_free_(&slot->arena);
    free(slot);
}

static void wf_end_task_(wf_task *task) {
    // Nothing of a task that ends is waited for: sets and waiters must not see its futures fail.
    for (struct wf_slot *slot = task->first; slot; slot = slot->next) slot->waiter = NULL, slot->parent = NULL, slot->count = 0;
    for (struct wf_slot *slot = task->first; slot; slot = slot->next) wf_give_up_(slot);
    while (task->first) wf_free_slot_(task->first);
    if (task->queued) {
        wf_task **at = &wf_p->queue_first, *last = NULL;
        while (*at && *at != task) last = *at, at = &(*at)->queue;
        if (*at) *at = task->queue;
        if (wf_p->queue_last == task) wf_p->queue_last = last;
    }
    for (wf_task **at = &wf_p->yielded; *at; at = &(*at)->queue) if (*at == task) { *at = task->queue; break; }
    wf_free_(&task->arena);
    free(task->state);
    free(task);
}

// ---- Values ----

static const struct wf_node WF_NULL_NODE = {.type = WF_NULL, .text = ""};

wf_type wf_type_of(wf_value of) { return of ? of->type : WF_NULL; }
size_t wf_len(wf_value of) {
    wf_type type = wf_type_of(of);
    return type == WF_TEXT || type == WF_LIST || type == WF_OBJECT || type == WF_BYTES ? of->len : 0;
}
wf_value wf_get(wf_value of, const char *key) {
    size_t len = strlen(key);
    wf_value found = &WF_NULL_NODE;
    if (wf_type_of(of) == WF_OBJECT)  // of two members of one name the last counts
        for (struct wf_node *at = of->first; at; at = at->next)
            if (at->key_len == len && memcmp(at->key, key, len) == 0) found = at;
    return found;
}
wf_value wf_at(wf_value of, size_t index) {
    struct wf_node *at = wf_type_of(of) == WF_LIST || wf_type_of(of) == WF_OBJECT ? of->first : NULL;
    while (at && index--) at = at->next;
    return at ? at : &WF_NULL_NODE;
}
const char *wf_text(wf_value of) { return wf_type_of(of) == WF_TEXT ? of->text : ""; }
bool wf_is(wf_value of, const char *text) {
    return wf_type_of(of) == WF_TEXT && of->len == strlen(text) && memcmp(of->text, text, of->len) == 0;
}
bool wf_bool(wf_value of) { return wf_type_of(of) == WF_BOOL && of->number; }

// Reads integers in all their forms: 12, 12.0, 1.2e1.
bool wf_integer(wf_value of, int64_t *integer) {
    if (wf_type_of(of) != WF_NUMBER) return false;
    const char *at = of->text;
    bool negative = *at == '-', zero = true;
    uint64_t digits = 0;
    int exponent = 0, power = 0, sign = 1;
    for (at += negative; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(digits, 10u, &digits) || __builtin_add_overflow(digits, (unsigned)(*at - '0'), &digits)) return false;
        zero = zero && *at == '0';
    }
    if (*at == '.') {
        for (at++; *at >= '0' && *at <= '9'; at++) {
            const char *rest = at;
            while (*rest == '0') rest++;
            if (*rest < '0' || *rest > '9') { at = rest; break; }
            if (__builtin_mul_overflow(digits, 10u, &digits) || __builtin_add_overflow(digits, (unsigned)(*at - '0'), &digits)) return false;
            zero = zero && *at == '0';
            exponent--;
        }
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '-') sign = -1;
        for (at += *at == '-' || *at == '+'; *at >= '0' && *at <= '9'; at++) if (power < 100000) power = power * 10 + (*at - '0');
    }
    exponent += sign * power;
    if (zero) return *integer = 0, true;
    for (; exponent > 0; exponent--) if (__builtin_mul_overflow(digits, 10u, &digits)) return false;
    for (; exponent < 0; exponent++, digits /= 10) if (digits % 10) return false;
    if (digits > (uint64_t)INT64_MAX) return false;
    *integer = negative ? -(int64_t)digits : (int64_t)digits;
    return true;
}
int64_t wf_int(wf_value of) {
    int64_t integer;
    return wf_integer(of, &integer) ? integer : 0;
}
double wf_number_of(wf_value of) { return wf_type_of(of) == WF_NUMBER ? strtod(of->text, NULL) : 0; }

static struct wf_node *wf_node_(wf_arena *arena, wf_type type) {
    struct wf_node *node = wf_take_(arena, sizeof *node);
    node->type = type;
    node->text = "";
    return node;
}
static void wf_append_(struct wf_node *to, struct wf_node *member) {
    if (to->last) to->last->next = member; else to->first = member;
    to->last = member;
    to->len++;
}
struct wf_node *wf_list(void) { return wf_node_(wf_here_(), WF_LIST); }
struct wf_node *wf_object(void) { return wf_node_(wf_here_(), WF_OBJECT); }
static struct wf_node *wf_head_(wf_arena *arena, wf_value of) {
    struct wf_node *copy = wf_take_(arena, sizeof *copy);
    *copy = of ? *of : WF_NULL_NODE;
    copy->next = NULL;
    copy->key = NULL;
    copy->key_len = 0;
    return copy;
}
void wf_push(struct wf_node *list, wf_value member) { wf_append_(list, wf_head_(wf_here_(), member)); }
void wf_set(struct wf_node *object, const char *key, wf_value member) {
    struct wf_node *copy = wf_head_(wf_here_(), member);
    wf_str name = wf_copy_text_(wf_here_(), key);
    copy->key = name.ptr, copy->key_len = name.len;
    wf_append_(object, copy);
}
static struct wf_node *wf_text_node_(wf_arena *arena, wf_type type, const char *text, size_t len) {
    struct wf_node *node = wf_node_(arena, type);
    wf_str copy = type == WF_TEXT ? wf_copy_(arena, text, len) : wf_copy_raw_(arena, (wf_str){text, len});
    node->text = copy.ptr, node->len = copy.len;
    return node;
}
wf_value wf_string(const char *text) { return wf_text_node_(wf_here_(), WF_TEXT, text, strlen(text)); }
wf_value wf_bytes(const void *bytes, size_t len) { return wf_text_node_(wf_here_(), WF_BYTES, bytes, len); }

static size_t wf_decimal_(char into[24], int64_t number) {
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    char digits[24];
    size_t len = 0, at = 0;
    do digits[len++] = (char)('0' + left % 10); while (left /= 10);
    if (number < 0) into[at++] = '-';
    while (len) into[at++] = digits[--len];
    into[at] = 0;
    return at;
}
static struct wf_node *wf_int_node_(wf_arena *arena, int64_t number) {
    char digits[24];
    size_t len = wf_decimal_(digits, number);
    return wf_text_node_(arena, WF_NUMBER, digits, len);
}

int snprintf(char *restrict, size_t, const char *restrict, ...);
wf_value wf_number(double number) {
    if (number != number || number > 1.7976931348623157e308 || number < -1.7976931348623157e308) return &WF_NULL_NODE;
    if (number > -9007199254740992.0 && number < 9007199254740992.0 && (double)(int64_t)number == number)
        return wf_int_node_(wf_here_(), (int64_t)number);
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number) break;
    }
    return wf_text_node_(wf_here_(), WF_NUMBER, digits, strlen(digits));
}

// One reader for JSON and for templates, which have `args`.
typedef struct { const char *at, *end; wf_arena *arena; bool relaxed; va_list *args; int depth; } wf_reader;

static void wf_space_(wf_reader *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r')) in->at++;
}
static bool wf_eat_(wf_reader *in, char c) {
    wf_space_(in);
    return in->at < in->end && *in->at == c ? in->at++, true : false;
}
static size_t wf_encode_(char *out, uint32_t c) {
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) return out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63)), 3;
    out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    return out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63)), 4;
}
static int wf_hex4_(const char *at, const char *end) {
    if (end - at < 4) return -1;
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}
// A text after its opening quote. It is never longer than it is written.
static bool wf_read_text_(wf_reader *in, char quote, wf_str *text) {
    const char *close = in->at;
    while (close < in->end && *close != quote) close += *close == '\\' ? 2 : 1;
    if (close >= in->end) return false;
    char *out = wf_take_(in->arena, (size_t)(close - in->at) + 4);
    size_t len = 0;
    while (in->at < close) {
        unsigned char c = (unsigned char)*in->at++;
        if (c < 0x20) return false;
        if (c != '\\') { out[len++] = (char)c; continue; }
        c = (unsigned char)*in->at++;
        const char *from = "\"\\/bfnrt'", *to = "\"\\/\b\f\n\r\t'", *found = c ? strchr(from, c) : NULL;
        if (found && (c != '\'' || in->relaxed)) { out[len++] = to[found - from]; continue; }
        int unit = c == 'u' ? wf_hex4_(in->at, close) : -1;
        if (unit < 0) return false;
        in->at += 4;
        uint32_t code = (uint32_t)unit;
        if (unit >= 0xd800 && unit < 0xdc00 && close - in->at >= 6 && in->at[0] == '\\' && in->at[1] == 'u') {
            int low = wf_hex4_(in->at + 2, close);
            if (low >= 0xdc00 && low < 0xe000) code = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00), in->at += 6;
        }
        if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
        len += wf_encode_(out + len, code);
    }
    in->at++;
    *text = (wf_str){out, len};
    return true;
}
static bool wf_digits_(wf_reader *in) {
    const char *from = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') in->at++;
    return in->at > from;
}
static struct wf_node *wf_read_number_(wf_reader *in) {
    const char *from = in->at;
    if (*in->at == '-') in->at++;
    if (in->at < in->end && *in->at == '0') in->at++;
    else if (!wf_digits_(in)) return NULL;
    if (in->at < in->end && *in->at == '.' && (in->at++, !wf_digits_(in))) return NULL;
    if (in->at < in->end && (*in->at | 32) == 'e') {
        in->at++;
        if (in->at < in->end && (*in->at == '-' || *in->at == '+')) in->at++;
        if (!wf_digits_(in)) return NULL;
    }
    return wf_text_node_(in->arena, WF_NUMBER, from, (size_t)(in->at - from));
}
static bool wf_word_char_(char c) { return c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }
static struct wf_node *wf_bool_node_(wf_arena *arena, bool value) {
    struct wf_node *node = wf_node_(arena, WF_BOOL);
    node->number = value;
    return node;
}
static struct wf_node *wf_argument_(wf_reader *in) {
    if (!in->args || in->at >= in->end) return NULL;
    const char *text;
    switch (*in->at++) {
    case 's': return text = va_arg(*in->args, const char *), wf_text_node_(in->arena, WF_TEXT, text ? text : "", text ? strlen(text) : 0);
    case 'd': return wf_int_node_(in->arena, va_arg(*in->args, int));
    case 'l': return wf_int_node_(in->arena, va_arg(*in->args, int64_t));
    case 'b': return wf_bool_node_(in->arena, va_arg(*in->args, int));
    case 'v': return wf_head_(in->arena, va_arg(*in->args, wf_value));
    default: return NULL;
    }
}
static bool wf_read_key_(wf_reader *in, wf_str *key) {
    if (wf_eat_(in, '"')) return wf_read_text_(in, '"', key);
    if (!in->relaxed) return false;
    if (wf_eat_(in, '\'')) return wf_read_text_(in, '\'', key);
    const char *from = in->at;
    while (in->at < in->end && wf_word_char_(*in->at)) in->at++;
    *key = wf_copy_(in->arena, from, (size_t)(in->at - from));
    return key->len > 0;
}
static struct wf_node *wf_read_(wf_reader *in);
static struct wf_node *wf_read_members_(wf_reader *in, wf_type type, char close) {
    struct wf_node *all = wf_node_(in->arena, type);
    if (++in->depth > WF_DEPTH_MAX) return NULL;
    if (wf_eat_(in, close)) return in->depth--, all;
    do {
        wf_str key = {0};
        if (type == WF_OBJECT && (!wf_read_key_(in, &key) || !wf_eat_(in, ':'))) return NULL;
        struct wf_node *member = wf_read_(in);
        if (!member) return NULL;
        member->key = key.ptr, member->key_len = key.len;
        wf_append_(all, member);
    } while (wf_eat_(in, ','));
    in->depth--;
    return wf_eat_(in, close) ? all : NULL;
}
static struct wf_node *wf_read_(wf_reader *in) {
    wf_space_(in);
    if (in->at >= in->end) return NULL;
    char c = *in->at;
    if (c == '{') return in->at++, wf_read_members_(in, WF_OBJECT, '}');
    if (c == '[') return in->at++, wf_read_members_(in, WF_LIST, ']');
    if (c == '"' || (c == '\'' && in->relaxed)) {
        struct wf_node *node = wf_node_(in->arena, WF_TEXT);
        wf_str text;
        in->at++;
        if (!wf_read_text_(in, c, &text)) return NULL;
        node->text = text.ptr, node->len = text.len;
        return node;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return wf_read_number_(in);
    if (c == '%') return in->at++, wf_argument_(in);
    size_t left = (size_t)(in->end - in->at);
    if (left >= 4 && memcmp(in->at, "null", 4) == 0) return in->at += 4, wf_node_(in->arena, WF_NULL);
    if (left >= 4 && memcmp(in->at, "true", 4) == 0) return in->at += 4, wf_bool_node_(in->arena, true);
    if (left >= 5 && memcmp(in->at, "false", 5) == 0) return in->at += 5, wf_bool_node_(in->arena, false);
    return NULL;
}
static struct wf_node *wf_read_all_(wf_reader *in) {
    struct wf_node *node = wf_read_(in);
    wf_space_(in);
    return node && in->at == in->end ? node : NULL;
}
static wf_value wf_parse_in_(wf_arena *arena, const char *json, size_t len) {
    wf_reader in = {.at = json, .end = json + len, .arena = arena};
    return wf_read_all_(&in);
}
wf_value wf_parse(const char *json, size_t len) { return wf_parse_in_(wf_here_(), json, len); }

// Writes a value's JSON, or measures it if there is nowhere to write.
static size_t wf_write_text_(char *out, const char *text, size_t len) {
    size_t at = 0;
#define WF_PUT_(c) do { if (out) out[at] = (char)(c); at++; } while (0)
    WF_PUT_('"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *from = "\"\\\n\r\t", *to = "\"\\nrt", *found = c ? strchr(from, c) : NULL;
        if (found) {
            WF_PUT_('\\');
            WF_PUT_(to[found - from]);
        } else if (c < 0x20) {
            const char *hex = "0123456789abcdef";
            WF_PUT_('\\'); WF_PUT_('u'); WF_PUT_('0'); WF_PUT_('0'); WF_PUT_(hex[c >> 4]); WF_PUT_(hex[c & 15]);
        } else {
            WF_PUT_(c);
        }
    }
    WF_PUT_('"');
    return at;
}
static size_t wf_write_(char *out, wf_value of) {
    size_t at = 0;
    const char *word;
    switch (wf_type_of(of)) {
    case WF_BOOL: word = of->number ? "true" : "false"; break;
    case WF_NUMBER: word = of->text; break;
    case WF_TEXT: return wf_write_text_(out, of->text, of->len);
    case WF_LIST:
    case WF_OBJECT:
        WF_PUT_(of->type == WF_LIST ? '[' : '{');
        for (struct wf_node *member = of->first; member; member = member->next) {
            if (member != of->first) WF_PUT_(',');
            if (of->type == WF_OBJECT) {
                at += wf_write_text_(out ? out + at : NULL, member->key, member->key_len);
                WF_PUT_(':');
            }
            at += wf_write_(out ? out + at : NULL, member);
        }
        WF_PUT_(of->type == WF_LIST ? ']' : '}');
        return at;
    default: word = "null";
    }
    while (*word) { WF_PUT_(*word); word++; }
    return at;
}
static wf_str wf_print_in_(wf_arena *arena, wf_value of) {
    size_t len = wf_write_(NULL, of);
    char *text = wf_take_(arena, len + 1);
    wf_write_(text, of);
    return (wf_str){text, len};
}
const char *wf_print(wf_value value) { return wf_print_in_(wf_here_(), value).ptr; }

static wf_payload wf_payload_of_(wf_arena *arena, wf_value of) {
    wf_payload payload = {0};
    if (wf_type_of(of) == WF_BYTES) {
        payload.tag = WF_PAYLOAD_BYTES;
        payload.text = wf_copy_raw_(arena, (wf_str){of->text, of->len});
    } else if (wf_type_of(of) == WF_BLOB) {
        payload.tag = WF_PAYLOAD_BLOB;
        payload.blob.digest = wf_copy_text_(arena, of->text);
        payload.blob.size = (uint64_t)of->number;
        payload.blob.media_type = wf_copy_text_(arena, of->media);
    } else {
        payload.text = wf_print_in_(arena, of);
    }
    return payload;
}
static wf_value wf_value_in_(wf_arena *arena, const wf_payload *of) {
    if (of->tag == WF_PAYLOAD_JSON) return wf_parse_in_(arena, of->text.ptr, of->text.len);
    if (of->tag == WF_PAYLOAD_BYTES) return wf_text_node_(arena, WF_BYTES, of->text.ptr, of->text.len);
    struct wf_node *blob = wf_text_node_(arena, WF_BLOB, of->blob.digest.ptr, of->blob.digest.len);
    blob->media = wf_copy_(arena, of->blob.media_type.ptr, of->blob.media_type.len).ptr;
    blob->number = (int64_t)of->blob.size;
    return blob;
}

// A fault is noticed where nothing can return; the task ends when it returns next.
static void wf_fault_(const char *title, const char *file, unsigned line) {
    wf_task *task = wf_p ? wf_p->self : NULL;
    if (!task || task->faulted) return;
    task->faulted = true;
    task->fault = wf_make_problem_(&task->arena, "exception", title, NULL);
    if (!file) return;
    char digits[24];
    wf_decimal_(digits, line);
    size_t len = strlen(file);
    char *place = wf_take_(&task->arena, len + 26);
    memcpy(place, file, len);
    place[len] = ':';
    strcpy(place + len + 1, digits);
    task->fault.detail = wf_some_(&task->arena, place);
    struct wf_node *data = wf_object(), *at = wf_object();
    wf_set(at, "path", wf_string(file));
    wf_set(at, "line", wf_int_node_(&task->arena, line));
    wf_set(data, "at", at);
    task->fault.data = (wf_opt_str){1, wf_print_in_(&task->arena, data)};
}

wf_value wf_json(const char *template_, ...) {
    va_list args;
    va_start(args, template_);
    wf_reader in = {.at = template_, .end = template_ + strlen(template_), .arena = wf_here_(), .relaxed = true, .args = &args};
    wf_value value = wf_read_all_(&in);
    va_end(args);
    if (value) return value;
    wf_fault_("A template of wf_json has a mistake", NULL, 0);
    if (wf_p->self && wf_p->self->faulted) wf_p->self->fault.detail = wf_some_(&wf_p->self->arena, template_);
    return &WF_NULL_NODE;
}

static wf_str wf_format_in_(wf_arena *arena, const char *template_, va_list *args) {
    struct wf_node *parts = wf_node_(arena, WF_LIST);
    size_t len = 0;
    const char *end = template_ + strlen(template_);
    for (const char *at = template_; at < end;) {
        const char *stop = memchr(at, '%', (size_t)(end - at));
        if (!stop) stop = end;
        struct wf_node *part = wf_text_node_(arena, WF_TEXT, at, (size_t)(stop - at));
        wf_append_(parts, part);
        len += part->len;
        if (stop == end) break;
        wf_reader in = {.at = stop + 1, .end = end, .arena = arena, .args = args};
        part = stop[1] == '%' ? (in.at++, wf_text_node_(arena, WF_TEXT, "%", 1)) : wf_argument_(&in);
        if (!part) part = wf_text_node_(arena, WF_TEXT, "%", 1);
        if (part->type != WF_TEXT) {
            wf_str json = wf_print_in_(arena, part);
            part = wf_text_node_(arena, WF_TEXT, json.ptr, json.len);
        }
        wf_append_(parts, part);
        len += part->len;
        at = in.at;
    }
    char *text = wf_take_(arena, len + 1), *to = text;
    for (struct wf_node *part = parts->first; part; to += part->len, part = part->next) memcpy(to, part->text, part->len);
    return (wf_str){text, len};
}
const char *wf_format(const char *template_, ...) {
    va_list args;
    va_start(args, template_);
    wf_str text = wf_format_in_(wf_here_(), template_, &args);
    va_end(args);
    return text.ptr;
}

wf_mark wf_marked(void) {
    wf_chunk *head = wf_here_()->head;
    return (wf_mark){head, head ? head->used : 0, wf_p->serial};
}
void wf_release(wf_mark mark) {
    wf_arena *arena = wf_here_();
    for (struct wf_slot *slot = wf_p->self->last, *prev; slot && slot->serial > mark.serial; slot = prev) {
        prev = slot->prev;
        wf_give_up_(slot);
        wf_free_slot_(slot);
    }
    while (arena->head && arena->head != mark.chunk) {
        wf_chunk *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    if (arena->head) arena->head->used = mark.used;
}

// ---- Futures ----

bool wf_ready(wf_future of) { return of && of->state; }
bool wf_failed(wf_future of) { return of && of->state == 2; }
wf_value wf_value_of(wf_future of) {
    if (!of || of->state != 1) return &WF_NULL_NODE;
    if (of->kind == WF_OF_ANY || of->kind == WF_OF_RACE) return wf_value_of(of->set[of->winner]);
    if (of->kind == WF_OF_ALL && !of->parsed) {
        struct wf_node *all = wf_node_(&of->arena, WF_LIST);
        for (size_t i = 0; i < of->count; i++) wf_append_(all, wf_head_(&of->arena, wf_value_of(of->set[i])));
        of->parsed = true;
        of->value = all;
    }
    if (!of->parsed) {
        of->parsed = true;
        of->value = of->payload.text.ptr ? wf_value_in_(&of->arena, &of->payload) : NULL;
    }
    return of->value ? of->value : &WF_NULL_NODE;
}
const wf_problem *wf_problem_of(wf_future of) { return wf_failed(of) ? &of->problem : NULL; }
bool wf_problem_is(wf_future of, const char *kind) {
    return wf_failed(of) && of->problem.kind.len == strlen(kind) && memcmp(of->problem.kind.ptr, kind, of->problem.kind.len) == 0;
}
void wf_cancel(wf_future of) { if (of) wf_give_up_(of); }
void wf_drop(wf_future *of) {
    if (*of) {
        wf_give_up_(*of);
        wf_free_slot_(*of);
    }
    *of = NULL;
}

wf_future wf_never(void) { return wf_slot_(WF_OF_TASK, 0); }
static wf_micros wf_carried_(wf_micros time) { return time < (1ull << 53) ? time : (1ull << 53) - 1; }
wf_future wf_sleep(wf_micros time) {
    wf_issue_(WF_DO_SLEEP)->number = wf_carried_(time);
    return wf_await_command_();
}
wf_future wf_call_(const char *handler, wf_value args, wf_call_options options) {
    wf_do_call call = {.handler = wf_copy_text_(&wf_p->out, handler),
                       .args = wf_payload_of_(&wf_p->out, args),
                       .timeout = {options.timeout > 0, wf_carried_(options.timeout)},
                       .key = wf_some_(&wf_p->out, options.key)};
    wf_issue_(WF_DO_CALL)->call = call;
    return wf_await_command_();
}
wf_future wf_signal(const char *name, wf_micros timeout) { return wf_call("signal", wf_json("{name: %s}", name), .timeout = timeout); }
wf_future wf_spawn_(const char *entry, wf_value input, wf_spawn_options options) {
    wf_do_spawn spawn = {.component = wf_some_(&wf_p->out, options.component),
                         .entry = wf_copy_text_(&wf_p->out, entry),
                         .input = wf_payload_of_(&wf_p->out, input),
                         .name = wf_some_(&wf_p->out, options.name),
                         .link = options.link,
                         .detached = options.detached};
    if (options.narrow) spawn.narrow = (wf_opt_str){1, wf_print_in_(&wf_p->out, options.narrow)};
    wf_issue_(WF_DO_SPAWN)->spawn = spawn;
    wf_future child = wf_await_command_();
    child->keep = options.detached;
    if (options.link) child->exit = wf_slot_(WF_OF_EXIT, child->tag);
    return child;
}
wf_target wf_child(wf_future spawned) { return (wf_target){.tag = WF_TARGET_CHILD, .id = spawned->tag}; }
wf_target wf_process(uint64_t pid) { return (wf_target){.tag = WF_TARGET_PROCESS, .id = pid}; }
wf_target wf_named(const char *name) { return (wf_target){.tag = WF_TARGET_NAME, .name = {name, strlen(name)}}; }
wf_target wf_in_run(const char *run, const char *name) {
    return (wf_target){.tag = WF_TARGET_RUN, .run = {{run, strlen(run)}, {name, strlen(name)}}};
}
wf_sender wf_from_child(wf_future spawned) { return (wf_sender){.tag = WF_SENDER_CHILD, .id = spawned->tag}; }
wf_future wf_exited(wf_future spawned) { return spawned->exit; }

static wf_target wf_copy_target_(wf_target of) {
    if (of.tag == WF_TARGET_NAME) of.name = wf_copy_(&wf_p->out, of.name.ptr, of.name.len);
    if (of.tag == WF_TARGET_RUN) {
        of.run.run = wf_copy_(&wf_p->out, of.run.run.ptr, of.run.run.len);
        of.run.name = wf_copy_(&wf_p->out, of.run.name.ptr, of.run.name.len);
    }
    return of;
}
void wf_send(wf_target to, const char *topic, wf_value body) {
    wf_do_send send = {wf_copy_target_(to), wf_copy_text_(&wf_p->out, topic), wf_payload_of_(&wf_p->out, body)};
    wf_issue_(WF_DO_SEND)->send = send;
}
wf_future wf_send_watched(wf_target to, const char *topic, wf_value body) {
    wf_send(to, topic, body);
    wf_future sent = wf_await_command_();
    sent->keep = true;
    return sent;
}

static bool wf_same_(wf_str a, wf_str b) { return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0); }
static bool wf_takes_(const struct wf_slot *receiver, const wf_message *message) {
    // The host may add topics of its own at any time: they reach only those that ask for them.
    if (receiver->topic.some ? !wf_same_(receiver->topic.val, message->topic)
                             : message->topic.len >= 7 && memcmp(message->topic.ptr, "wfhost.", 7) == 0) return false;
    if (!receiver->from_one) return true;
    if (receiver->sender.tag != message->sender.tag) return false;
    return message->sender.tag == WF_SENDER_OUTSIDE ? wf_same_(receiver->sender.outside, message->sender.outside)
                                                    : receiver->sender.id == message->sender.id;
}
static void wf_fill_(struct wf_slot *receiver, const wf_message *message) {
    receiver->topic = (wf_opt_str){1, wf_copy_(&receiver->arena, message->topic.ptr, message->topic.len)};
    receiver->sender = message->sender;
    if (message->sender.tag == WF_SENDER_OUTSIDE) receiver->sender.outside = wf_copy_raw_(&receiver->arena, message->sender.outside);
    receiver->payload = wf_copy_payload_(&receiver->arena, &message->body);
    wf_settle_(receiver, 1);
}
wf_future wf_receive_(wf_receive_options options) {
    struct wf_slot *receiver = wf_slot_(WF_OF_RECEIVE, 0);
    receiver->topic = wf_some_(&receiver->arena, options.topic);
    receiver->from_one = options.from != NULL;
    if (options.from) {
        receiver->sender = *options.from;
        if (options.from->tag == WF_SENDER_OUTSIDE) receiver->sender.outside = wf_copy_raw_(&receiver->arena, options.from->outside);
    }
    for (wf_letter **at = &wf_p->mail; *at; at = &(*at)->next) {
        wf_letter *letter = *at;
        if (!wf_takes_(receiver, &letter->message)) continue;
        *at = letter->next;
        wf_fill_(receiver, &letter->message);
        wf_free_(&letter->arena);
        free(letter);
        break;
    }
    return receiver;
}
const char *wf_topic_of(wf_future received) { return received->state == 1 ? received->topic.val.ptr : ""; }
wf_sender wf_sender_of(wf_future received) { return received->sender; }
bool wf_reply_to(wf_future received, wf_target *to) {
    if (received->sender.tag > WF_SENDER_PROCESS) return false;
    to->tag = received->sender.tag == WF_SENDER_CHILD ? WF_TARGET_CHILD : WF_TARGET_PROCESS;
    to->id = received->sender.id;
    return true;
}

wf_future wf_monitor(wf_target target) {
    wf_issue_(WF_DO_MONITOR)->target = wf_copy_target_(target);
    return wf_slot_(WF_OF_EXIT, wf_p->next_tag - 1);
}
wf_future wf_link(wf_target target) {
    wf_issue_(WF_DO_LINK)->target = wf_copy_target_(target);
    return wf_slot_(WF_OF_EXIT, wf_p->next_tag - 1);
}
wf_ended wf_exit_of(wf_future exited) { return (wf_ended)exited->ended; }
const wf_problem *wf_exit_problem(wf_future exited) { return exited->ended == WF_FAILED ? &exited->problem : NULL; }
void wf_unlink(wf_target target) { wf_issue_(WF_DO_UNLINK)->target = wf_copy_target_(target); }
void wf_stop(wf_target target) { wf_issue_(WF_DO_STOP)->target = wf_copy_target_(target); }
wf_future wf_register(const char *name) {
    wf_issue_(WF_DO_REGISTER)->name = wf_copy_text_(&wf_p->out, name);
    return wf_await_command_();
}
void wf_expose(const char *query, wf_value value) {
    wf_do_expose expose = {wf_copy_text_(&wf_p->out, query), wf_payload_of_(&wf_p->out, value)};
    wf_issue_(WF_DO_EXPOSE)->expose = expose;
}
wf_future wf_cancelled(void) {
    struct wf_slot *listener = wf_slot_(WF_OF_CANCEL, 0);
    if (wf_p->cancel_came) listener->cancellation = wf_p->cancellation, wf_settle_(listener, 1);
    return listener;
}
const char *wf_cancel_reason(wf_future cancelled) { return cancelled->state == 1 ? cancelled->cancellation.reason.ptr : ""; }
wf_micros wf_cancel_grace(wf_future cancelled) { return cancelled->cancellation.grace; }

static wf_future wf_set_of_(uint8_t kind, size_t count, const wf_future *of) {
    struct wf_slot *set = wf_slot_(kind, 0);
    set->count = count;
    set->set = wf_take_(&set->arena, (count + 1) * sizeof *set->set);
    if (count) memcpy(set->set, of, count * sizeof *of);
    for (size_t i = 0; i < count; i++) set->set[i]->parent = set;
    if (count == 0 && kind == WF_OF_ALL) wf_settle_(set, 1);
    for (size_t i = 0; i < count && !set->state; i++) if (set->set[i]->state) wf_member_(set, set->set[i]);
    return set;
}
wf_future wf_all_n(size_t count, const wf_future *of) { return wf_set_of_(WF_OF_ALL, count, of); }
wf_future wf_any_n(size_t count, const wf_future *of) { return wf_set_of_(WF_OF_ANY, count, of); }
wf_future wf_race_n(size_t count, const wf_future *of) { return wf_set_of_(WF_OF_RACE, count, of); }
size_t wf_winner(wf_future any) { return any->winner; }
uint64_t wf_order(wf_future of) { return of->order; }
wf_future wf_timeout(wf_future of, wf_micros limit) {
    wf_future both[] = {of, wf_sleep(limit)};
    return wf_set_of_(WF_OF_TIMEOUT, 2, both);
}

void wf_log(wf_level level, const char *template_, ...) {
    wf_arena arena = {0};
    va_list args;
    va_start(args, template_);
    wf_str text = wf_format_in_(&arena, template_, &args);
    va_end(args);
    wf_host_log(level, text, (wf_opt_str){0});
    wf_free_(&arena);
}
void wf_log_with(wf_level level, const char *text, wf_value fields) {
    wf_arena arena = {0};
    wf_host_log(level, wf_copy_text_(&arena, text), (wf_opt_str){1, wf_print_in_(&arena, fields)});
    wf_free_(&arena);
}
wf_micros wf_now(void) { return wf_host_now(); }
void wf_random(void *into, size_t len) {
    for (size_t at = 0; at < len; at += 4096) wf_host_random((char *)into + at, (uint32_t)(len - at < 4096 ? len - at : 4096));
}
uint64_t wf_pid(void) {
    wf_identity me;
    wf_host_whoami(&me);
    return me.pid;
}
const char *wf_run_id(void) { return wf_p->run; }

// ---- Tasks ----

wf_value wf_input(void) { return wf_p->self->input; }

static wf_task *wf_new_task_(const wf_body *body, wf_arena arena, wf_value input) {
    wf_task *task = calloc(1, sizeof *task);
    void *state = calloc(1, body->size ? body->size : 1);
    if (!task || !state) wf_die_("out of memory");
    task->body = body;
    task->state = state;
    task->arena = arena;
    task->input = input;
    wf_wake_(task);
    return task;
}
wf_future wf_start(const wf_body *body, wf_value input) {
    struct wf_slot *future = wf_slot_(WF_OF_TASK, 0);
    wf_arena arena = {0};
    wf_payload payload = wf_payload_of_(&arena, input);
    future->task = wf_new_task_(body, arena, wf_value_in_(&arena, &payload));
    future->task->arena = arena;
    future->task->future = future;
    return future;
}

// Starts the task of a map's next item.
static void wf_map_next_(struct wf_slot *map) {
    wf_task *self = wf_p->self;
    wf_value item = map->items;
    if (!item) return;
    wf_p->self = map->owner;
    struct wf_slot *started = wf_start(map->body, item);
    wf_p->self = self;
    map->set[map->winner++] = started;
    started->parent = map;
    map->items = item->next;
}
wf_future wf_map(size_t limit, wf_value items, const wf_body *body) {
    struct wf_slot *map = wf_slot_(WF_OF_ALL, 0);
    map->body = body;
    map->count = wf_type_of(items) == WF_LIST ? items->len : 0;
    map->set = wf_take_(&map->arena, (map->count + 1) * sizeof *map->set);
    map->items = map->count ? items->first : NULL;
    for (size_t i = 0; i < map->count && (limit == 0 || i < limit); i++) wf_map_next_(map);
    if (!map->count) wf_settle_(map, 1);
    return map;
}

int wf_resume_(void) { return wf_p->self->resume; }
bool wf_pending_(wf_future of, int line) {
    wf_task *self = wf_p->self;
    if (!of) {
        wf_fault_("A future that does not exist was awaited", NULL, 0);
        return true;
    }
    if (of->state) return false;
    of->waiter = self;
    self->resume = line;
    self->waits = true;
    return true;
}
wf_future *wf_awaited_(void) { return &wf_p->self->awaited; }
static void wf_finish_(uint8_t how) {
    wf_p->self->ended = true;
    wf_p->self->status.tag = how;
}
bool wf_rethrow_(wf_future of) {
    if (!wf_failed(of)) return false;
    wf_p->self->status.failed = wf_copy_problem_(&wf_p->self->arena, &of->problem);
    wf_finish_(WF_STATUS_FAILED);
    return true;
}
void wf_return_(wf_value output) {
    wf_p->self->status.complete = wf_payload_of_(&wf_p->self->arena, output);
    wf_finish_(WF_STATUS_COMPLETE);
}
void wf_yield_(int line) {
    wf_task *self = wf_p->self;
    self->resume = line;
    self->waits = true;
    self->queue = wf_p->yielded;
    wf_p->yielded = self;
}
void wf_renew_(const char *entry, wf_value input) {
    wf_p->self->status.renew.entry = wf_copy_text_(&wf_p->self->arena, entry);
    wf_p->self->status.renew.input = wf_payload_of_(&wf_p->self->arena, input);
    wf_finish_(WF_STATUS_RENEW);
}
void wf_fail_(const char *kind, const char *title, wf_fail_options options) {
    wf_arena *arena = &wf_p->self->arena;
    wf_problem problem = wf_make_problem_(arena, kind, title, options.detail);
    problem.status = (uint16_t)options.status;
    problem.class_ = (uint8_t)options.class_;
    problem.retry_after = (wf_opt_u64){options.retry_after > 0, options.retry_after};
    if (options.data) problem.data = (wf_opt_str){1, wf_print_in_(arena, options.data)};
    wf_p->self->status.failed = problem;
    wf_finish_(WF_STATUS_FAILED);
}
void wf_throw_(const char *what, const char *file, unsigned line) {
    wf_fault_(what, file, line);
}

// Runs a task until it waits or ends.
static void wf_run_task_(wf_task *task) {
    wf_p->self = task;
    task->waits = false;
    task->body->poll(task->state);
    if (task->faulted) {
        task->status.failed = task->fault;
        wf_finish_(WF_STATUS_FAILED);
    } else if (!task->ended && !task->waits) {
        wf_return_(NULL);
    }
    wf_p->self = NULL;
    if (!task->ended) return;
    wf_status status = task->status;
    if (!task->future || status.tag == WF_STATUS_RENEW) {
        // What the process ends with outlives its tasks.
        if (status.tag == WF_STATUS_COMPLETE) status.complete = wf_copy_payload_(&wf_p->out, &status.complete);
        if (status.tag == WF_STATUS_FAILED) status.failed = wf_copy_problem_(&wf_p->out, &status.failed);
        if (status.tag == WF_STATUS_RENEW) {
            status.renew.entry = wf_copy_raw_(&wf_p->out, status.renew.entry);
            status.renew.input = wf_copy_payload_(&wf_p->out, &status.renew.input);
        }
        wf_p->status = status;
        wf_task *root = wf_p->root;
        wf_p->root = NULL;
        wf_end_task_(root);
        return;
    }
    struct wf_slot *future = task->future;
    future->task = NULL;
    if (status.tag == WF_STATUS_COMPLETE) {
        future->payload = wf_copy_payload_(&future->arena, &status.complete);
        wf_settle_(future, 1);
    } else {
        wf_settle_failed_(future, &status.failed);
    }
    wf_end_task_(task);
}

// ---- Events ----

static void wf_deliver_(const wf_event *event) {
    struct wf_slot *slot;
    switch (event->tag) {
    case WF_EVENT_COMPLETED: {
        const wf_answer *answer = &event->completed.answer;
        slot = wf_find_(WF_OF_ANSWER, event->completed.tag);
        if (slot && answer->failed) {
            wf_settle_failed_(slot, &answer->err);
        } else if (slot) {
            slot->payload = wf_copy_payload_(&slot->arena, &answer->ok);
            wf_settle_(slot, 1);
        } else if (answer->failed && !(answer->err.kind.len == 9 && memcmp(answer->err.kind.ptr, "cancelled", 9) == 0)) {
            wf_arena arena = {0};
            wf_str kind = wf_copy_raw_(&arena, answer->err.kind);
            wf_log(WF_WARN, "command %l failed unheard: %s", (int64_t)event->completed.tag, kind.ptr);
            wf_free_(&arena);
        }
        break;
    }
    case WF_EVENT_MESSAGE: {
        for (slot = wf_p->waiting; slot; slot = slot->waiting)
            if (slot->kind == WF_OF_RECEIVE && wf_takes_(slot, &event->message)) {
                wf_fill_(slot, &event->message);
                return;
            }
        wf_letter *letter = calloc(1, sizeof *letter), **end = &wf_p->mail;
        if (!letter) wf_die_("out of memory");
        letter->message = event->message;
        letter->message.topic = wf_copy_raw_(&letter->arena, event->message.topic);
        letter->message.body = wf_copy_payload_(&letter->arena, &event->message.body);
        if (event->message.sender.tag == WF_SENDER_OUTSIDE)
            letter->message.sender.outside = wf_copy_raw_(&letter->arena, event->message.sender.outside);
        while (*end) end = &(*end)->next;
        *end = letter;
        break;
    }
    case WF_EVENT_EXITED:
        slot = wf_find_(WF_OF_EXIT, event->exited.by);
        if (!slot) break;
        slot->ended = event->exited.ending.tag;
        if (slot->ended == WF_FAILED) slot->problem = wf_copy_problem_(&slot->arena, &event->exited.ending.failed);
        wf_settle_(slot, 1);
        break;
    case WF_EVENT_CANCEL:
        wf_p->cancel_came = true;
        wf_p->cancellation = event->cancel;
        wf_p->cancellation.reason = wf_copy_raw_(&wf_p->kept, event->cancel.reason);
        for (slot = wf_p->waiting; slot;) {
            struct wf_slot *next = slot->waiting;
            if (slot->kind == WF_OF_CANCEL) {
                wf_p->cancel_heard = true;
                slot->cancellation = wf_p->cancellation;
                wf_settle_(slot, 1);
            }
            slot = next;
        }
        break;
    default: break;
    }
}

static uint8_t wf_waits_for_(void) {
    bool listens = false, asks = false;
    for (struct wf_slot *slot = wf_p->waiting; slot; slot = slot->waiting) {
        if (slot->kind == WF_OF_RECEIVE) return WF_IDLE;
        listens = true;
    }
    for (size_t i = 0; listens && !asks && i < WF_BUCKETS; i++)
        for (struct wf_slot *slot = wf_p->buckets[i]; slot; slot = slot->bucket) asks |= !slot->keep;
    return listens && !asks ? WF_IDLE : WF_BLOCKED;
}

void wf_proc_step(const wf_event *events, size_t count, wf_outcome *outcome) {
    wf_free_(&wf_p->out);
    wf_p->count = 0;
    while (wf_p->yielded) {
        wf_task *task = wf_p->yielded;
        wf_p->yielded = task->queue;
        wf_wake_(task);
    }
    for (size_t i = 0; i < count; i++) wf_deliver_(&events[i]);
    memset(&wf_p->status, 0, sizeof wf_p->status);
    if (wf_p->cancel_came && !wf_p->cancel_heard) {
        wf_p->status.tag = WF_STATUS_FAILED;
        wf_p->status.failed = wf_make_problem_(&wf_p->out, "cancelled", "Cancelled", wf_p->cancellation.reason.ptr);
        wf_task *root = wf_p->root;
        wf_p->root = NULL;
        wf_end_task_(root);
    }
    while (wf_p->root && wf_p->queue_first) {
        wf_task *task = wf_p->queue_first;
        wf_p->queue_first = task->queue;
        if (!wf_p->queue_first) wf_p->queue_last = NULL;
        task->queued = false;
        wf_run_task_(task);
    }
    outcome->status = wf_p->status;
    if (wf_p->root) outcome->status.tag = wf_p->yielded ? WF_READY : wf_waits_for_();
    // An empty list still needs a pointer that is aligned and not null.
    outcome->commands = wf_p->count ? wf_p->commands : (wf_command *)_Alignof(wf_command);
    outcome->count = wf_p->count;
}

wf_proc *wf_proc_new(void) {
    wf_proc *process = calloc(1, sizeof *process);
    if (!process) wf_die_("out of memory");
    return process;
}
void wf_proc_use(wf_proc *process) { wf_p = process; }
void wf_proc_free(wf_proc *process) {
    wf_p = process;
    if (process->root) wf_end_task_(process->root);
    while (process->mail) {
        wf_letter *letter = process->mail;
        process->mail = letter->next;
        wf_free_(&letter->arena);
        free(letter);
    }
    wf_free_(&process->out);
    wf_free_(&process->kept);
    free(process->commands);
    free(process);
    wf_p = NULL;
}

// Checks a value against the parts of a JSON Schema that programs rely on: type, required,
// properties, items. Returns whether it fits; else `at` and `wants` say where and what.
static bool wf_fits_(wf_value value, wf_value schema, const char **at, const char **wants) {
    static const char *const NAMES[] = {"null", "boolean", "number", "string", "array", "object"};
    wf_value type = wf_get(schema, "type");
    wf_type is = wf_type_of(value);
    int64_t integer;
    if (wf_type_of(type) == WF_TEXT) {
        bool fits = is <= WF_OBJECT && (wf_is(type, NAMES[is]) || (wf_is(type, "integer") && wf_integer(value, &integer)));
        if (!fits) return *wants = wf_text(type), false;
    }
    wf_value required = wf_get(schema, "required"), properties = wf_get(schema, "properties"), items = wf_get(schema, "items");
    for (size_t i = 0; is == WF_OBJECT && i < wf_len(required); i++) {
        wf_value member = wf_get(value, wf_text(wf_at(required, i)));
        if (member == &WF_NULL_NODE) return *at = wf_text(wf_at(required, i)), *wants = "present", false;
    }
    for (struct wf_node *member = is == WF_OBJECT ? value->first : NULL; member; member = member->next)
        for (struct wf_node *property = properties->first; property; property = property->next)
            if (wf_same_((wf_str){member->key, member->key_len}, (wf_str){property->key, property->key_len}) &&
                !wf_fits_(member, property, at, wants)) return *at = **at ? *at : property->key, false;
    for (struct wf_node *item = is == WF_LIST && items->type ? value->first : NULL; item; item = item->next)
        if (!wf_fits_(item, items, at, wants)) return *at = **at ? *at : "[]", false;
    return true;
}

static const char *wf_name_of_(size_t entry) {
    return wf_entries[entry].name ? wf_entries[entry].name : wf_entries[entry].body->name;
}

bool wf_proc_init(wf_str entry, const wf_payload *input, wf_problem *problem) {
    wf_identity me;
    wf_host_whoami(&me);
    wf_p->next_tag = me.next_tag;
    size_t len = me.run.len < sizeof wf_p->run ? me.run.len : sizeof wf_p->run - 1;
    memcpy(wf_p->run, me.run.ptr, len);
    const wf_body *body = NULL;
    const char *schema = NULL, *at = "", *wants = NULL;
    for (size_t i = 0; i < wf_entry_count; i++)
        if (wf_same_((wf_str){wf_name_of_(i), strlen(wf_name_of_(i))}, entry)) body = wf_entries[i].body, schema = wf_entries[i].input;
    if (!body) {
        *problem = wf_make_problem_(&wf_p->out, "unknown-entry", "The component has no such entry", NULL);
        problem->detail = (wf_opt_str){1, wf_copy_(&wf_p->out, entry.ptr, entry.len)};
        return true;
    }
    wf_arena arena = {0};
    wf_value value = wf_value_in_(&arena, input);
    const char *why = value ? NULL : "it is not JSON, or nested deeper than 100 levels";
    if (value && schema && !wf_fits_(value, wf_parse_in_(&wf_p->kept, schema, strlen(schema)), &at, &wants))
        why = *at ? wf_format("`%s` should be %s", at, wants) : wf_format("it should be %s", wants);
    if (why) {
        *problem = wf_make_problem_(&wf_p->out, "bad-input", "The input does not fit the entry", why);
        wf_free_(&arena);
        return true;
    }
    wf_p->root = wf_new_task_(body, arena, value);
    return false;
}

wf_str wf_proc_describe(void) {
    wf_arena *arena = &wf_p->kept;
    struct wf_node *all = wf_node_(arena, WF_OBJECT), *entries = wf_node_(arena, WF_OBJECT);
    if (*wf_description) wf_set(all, "description", wf_string(wf_description));
    for (size_t i = 0; i < wf_entry_count; i++) {
        const wf_entry *entry = &wf_entries[i];
        struct wf_node *described = wf_node_(arena, WF_OBJECT);
        if (entry->description) wf_set(described, "description", wf_string(entry->description));
        if (entry->input) wf_set(described, "input", wf_parse(entry->input, strlen(entry->input)));
        if (entry->output) wf_set(described, "output", wf_parse(entry->output, strlen(entry->output)));
        wf_set(entries, wf_name_of_(i), described);
    }
    wf_set(all, "entries", entries);
    return wf_print_in_(arena, all);
}

// ---- The component's imports and exports ----

#ifdef __wasm__
#define WF_IMPORT_(name) __attribute__((import_module("wfhost:process/host@0.1.0"), import_name(name)))
#define WF_EXPORT_(name) __attribute__((export_name(name)))
WF_IMPORT_("log") void wf_import_log_(int32_t level, const char *text, size_t len, int32_t some, const char *fields, size_t fields_len);
WF_IMPORT_("whoami") void wf_import_whoami_(wf_identity *into);
WF_IMPORT_("now") uint64_t wf_import_now_(void);
WF_IMPORT_("random") void wf_import_random_(uint32_t len, wf_str *into);

void wf_host_log(wf_level level, wf_str text, wf_opt_str fields) {
    wf_import_log_((int32_t)level, text.ptr, text.len, fields.some, fields.val.ptr, fields.val.len);
}
void wf_host_whoami(wf_identity *identity) { wf_import_whoami_(identity); }
wf_micros wf_host_now(void) { return wf_import_now_(); }
void wf_host_random(void *into, uint32_t len) {
    wf_str bytes;
    wf_import_random_(len, &bytes);
    memcpy(into, bytes.ptr, bytes.len < len ? bytes.len : len);
}

// What the host hands over is read within the step, and freed as a whole.
static wf_arena wf_in_;
WF_EXPORT_("cabi_realloc") void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    if (size == 0) return (void *)align;
    void *fresh = wf_take_(&wf_in_, size);
    if (old_size) memcpy(fresh, old, old_size < size ? old_size : size);
    return fresh;
}
WF_EXPORT_("wfhost:process/guest@0.1.0#init")
void *wf_export_init_(const char *entry, size_t entry_len, int32_t tag, char *a, size_t b, uint64_t size, char *c, size_t d) {
    static struct { uint8_t failed; wf_problem problem; } result;
    wf_payload input = {.tag = (uint8_t)tag};
    if (tag == WF_PAYLOAD_BLOB) input.blob.digest = (wf_str){a, b}, input.blob.size = size, input.blob.media_type = (wf_str){c, d};
    else input.text = (wf_str){a, b};
    wf_proc_use(wf_proc_new());
    result.failed = wf_proc_init((wf_str){entry, entry_len}, &input, &result.problem);
    wf_free_(&wf_in_);
    return &result;
}
WF_EXPORT_("wfhost:process/guest@0.1.0#step") void *wf_export_step_(const wf_event *events, size_t count) {
    static wf_outcome outcome;
    wf_proc_step(events, count, &outcome);
    wf_free_(&wf_in_);
    return &outcome;
}
WF_EXPORT_("wfhost:process/guest@0.1.0#close") void wf_export_close_(void) {}
WF_EXPORT_("wfhost:process/describe@0.1.0#describe") void *wf_export_describe_(void) {
    static wf_str text;
    wf_proc_use(wf_proc_new());
    text = wf_proc_describe();
    return &text;
}

// `assert` names its place in the log before it traps; `WF_ASSERT` ends the task in order.
_Noreturn void __assert_fail(const char *what, const char *file, int line, const char *function) {
    wf_log(WF_ERROR, "%s:%d: %s: %s does not hold", file, line, function, what);
    __builtin_trap();
}

// With -fsanitize=signed-integer-overflow,integer-divide-by-zero,shift,array-bounds the compiler calls
// these where a computation goes wrong: where it can go on the task ends as `exception` with the
// place, else (a division by zero, an index out of bounds) the place is logged and the guest traps.
typedef struct { const char *file; uint32_t line, column; } wf_place_;
#define WF_CHECKED_(name, title) \
    void __ubsan_handle_##name(wf_place_ *at, uintptr_t a, uintptr_t b) { (void)a, (void)b, wf_fault_(title, at->file, at->line); }
#define WF_TRAPPED_(name, title, ...) \
    _Noreturn void __ubsan_handle_##name(wf_place_ *at, __VA_ARGS__) { wf_die_at_(title, at); }
_Noreturn static void wf_die_at_(const char *title, const wf_place_ *at) {
    wf_log(WF_ERROR, "%s:%d: %s", at->file, (int)at->line, title);
    __builtin_trap();
}
WF_CHECKED_(add_overflow, "An addition overflows")
WF_CHECKED_(sub_overflow, "A subtraction overflows")
WF_CHECKED_(mul_overflow, "A multiplication overflows")
WF_TRAPPED_(divrem_overflow, "A division overflows, or is by zero", __attribute__((unused)) uintptr_t a, __attribute__((unused)) uintptr_t b)
WF_TRAPPED_(out_of_bounds, "An index is out of bounds", __attribute__((unused)) uintptr_t a)
WF_CHECKED_(shift_out_of_bounds, "A shift is too wide")
void __ubsan_handle_negate_overflow(wf_place_ *at, uintptr_t a) { (void)a, wf_fault_("A negation overflows", at->file, at->line); }

// What wasm-tools needs to know of the contract: the encoded world of `guest` and `describe`.
__asm__(".section \".custom_section.component-type:wfhost\",\"\",@\n"
        ".ascii \"\\000asm\\015\\000\\001\\000\\000\\031\\026wit-component-encoding\\004\\000\\007\\274\\015\\001A\\002\\001A\\017\\001B7\\001w\\004\\000\\003pid\\003\\000\\000\\001w\\004\\000\\003t\"\n"
        ".ascii \"ag\\003\\000\\002\\001w\\004\\000\\006micros\\003\\000\\004\\001r\\003\\006digests\\004sizew\\012media-types\\004\\000\\004blob\\003\\000\\006\\001p}\\001q\\003\"\n"
        ".ascii \"\\004json\\001s\\000\\005bytes\\001\\010\\000\\004blob\\001\\007\\000\\004\\000\\007payload\\003\\000\\011\\001m\\003\\010definite\\011retryable\\011unc\"\n"
        ".ascii \"ertain\\004\\000\\015problem-class\\003\\000\\013\\001ks\\001k\\005\\001r\\007\\004kinds\\005titles\\006status{\\006detail\\015\\005\"\n"
        ".ascii \"class\\014\\013retry-after\\016\\004data\\015\\004\\000\\007problem\\003\\000\\017\\001q\\004\\005child\\001\\003\\000\\007process\\001\\001\\000\\004ca\"\n"
        ".ascii \"ll\\001\\003\\000\\007outside\\001s\\000\\004\\000\\006sender\\003\\000\\021\\001r\\002\\003runs\\004names\\004\\000\\012run-target\\003\\000\\023\\001q\\004\\007pr\"\n"
        ".ascii \"ocess\\001\\001\\000\\005child\\001\\003\\000\\004name\\001s\\000\\003run\\001\\024\\000\\004\\000\\006target\\003\\000\\025\\001r\\003\\006sender\\022\\005topics\\004b\"\n"
        ".ascii \"ody\\012\\004\\000\\007message\\003\\000\\027\\001q\\003\\011completed\\000\\000\\006failed\\001\\020\\000\\011cancelled\\001s\\000\\004\\000\\006ending\"\n"
        ".ascii \"\\003\\000\\031\\001r\\003\\003pid\\001\\002by\\003\\006ending\\032\\004\\000\\004exit\\003\\000\\033\\001j\\001\\012\\001\\020\\001r\\002\\003tag\\003\\006answer\\035\\004\\000\\012comple\"\n"
        ".ascii \"tion\\003\\000\\036\\001r\\002\\006reasons\\005grace\\005\\004\\000\\014cancellation\\003\\000 \\001q\\004\\011completed\\001\\037\\000\\007mess\"\n"
        ".ascii \"age\\001\\030\\000\\006exited\\001\\034\\000\\006cancel\\001!\\000\\004\\000\\005event\\003\\000\\042\\001r\\007\\011component\\015\\005entrys\\005input\"\n"
        ".ascii \"\\012\\004name\\015\\004link\\177\\010detached\\177\\006narrow\\015\\004\\000\\005spawn\\003\\000$\\001r\\004\\007handlers\\004args\\012\\007tim\"\n"
        ".ascii \"eout\\016\\017idempotency-key\\015\\004\\000\\004call\\003\\000&\\001r\\003\\002to\\026\\005topics\\004body\\012\\004\\000\\004send\\003\\000(\\001r\"\n"
        ".ascii \"\\002\\005querys\\005value\\012\\004\\000\\006expose\\003\\000*\\001q\\013\\005sleep\\001\\005\\000\\005spawn\\001%\\000\\004call\\001'\\000\\004send\\001)\\000\"\n"
        ".ascii \"\\006cancel\\001\\003\\000\\004stop\\001\\026\\000\\007monitor\\001\\026\\000\\004link\\001\\026\\000\\006unlink\\001\\026\\000\\010register\\001s\\000\\006expo\"\n"
        ".ascii \"se\\001+\\000\\004\\000\\006action\\003\\000,\\001r\\002\\003tag\\003\\006action-\\004\\000\\007command\\003\\000.\\001r\\002\\005entrys\\005input\\012\\004\"\n"
        ".ascii \"\\000\\007renewal\\003\\0000\\001q\\006\\005ready\\000\\000\\007blocked\\000\\000\\004idle\\000\\000\\010complete\\001\\012\\000\\006failed\\001\\020\\000\\005r\"\n"
        ".ascii \"enew\\0011\\000\\004\\000\\006status\\003\\0002\\001p/\\001r\\002\\006status3\\010commands4\\004\\000\\007outcome\\003\\0005\\003\\000\\032wfhos\"\n"
        ".ascii \"t:process/types@0.1.0\\005\\000\\002\\003\\000\\000\\003pid\\002\\003\\000\\000\\003tag\\002\\003\\000\\000\\006micros\\001B\\024\\002\\003\\002\\001\\001\\004\\000\\003pid\"\n"
        ".ascii \"\\003\\000\\000\\002\\003\\002\\001\\002\\004\\000\\003tag\\003\\000\\002\\002\\003\\002\\001\\003\\004\\000\\006micros\\003\\000\\004\\001m\\005\\005trace\\005debug\\004info\\004warn\\005erro\"\n"
        ".ascii \"r\\004\\000\\005level\\003\\000\\006\\001r\\003\\003runs\\003pid\\001\\010next-tag\\003\\004\\000\\010identity\\003\\000\\010\\001ks\\001@\\003\\005level\\007\\004t\"\n"
        ".ascii \"exts\\006fields\\012\\001\\000\\004\\000\\003log\\001\\013\\001@\\000\\000\\011\\004\\000\\006whoami\\001\\014\\001@\\000\\000\\005\\004\\000\\003now\\001\\015\\001p}\\001@\\001\\003leny\\000\\016\"\n"
        ".ascii \"\\004\\000\\006random\\001\\017\\003\\000\\031wfhost:process/host@0.1.0\\005\\004\\001B\\002\\001@\\000\\000s\\004\\000\\010describe\\001\\000\\004\\000\"\n"
        ".ascii \"\\035wfhost:process/describe@0.1.0\\005\\005\\002\\003\\000\\000\\007payload\\002\\003\\000\\000\\007problem\\002\\003\\000\\000\\005eve\"\n"
        ".ascii \"nt\\002\\003\\000\\000\\007outcome\\001B\\020\\002\\003\\002\\001\\006\\004\\000\\007payload\\003\\000\\000\\002\\003\\002\\001\\007\\004\\000\\007problem\\003\\000\\002\\002\\003\\002\\001\\010\\004\\000\\005eve\"\n"
        ".ascii \"nt\\003\\000\\004\\002\\003\\002\\001\\011\\004\\000\\007outcome\\003\\000\\006\\001j\\000\\001\\003\\001@\\002\\005entrys\\005input\\001\\000\\010\\004\\000\\004init\\001\\011\\001p\\005\\001@\\001\\006e\"\n"
        ".ascii \"vents\\012\\000\\007\\004\\000\\004step\\001\\013\\001@\\000\\001\\000\\004\\000\\005close\\001\\014\\004\\000\\032wfhost:process/guest@0.1.0\\005\\012\\004\"\n"
        ".ascii \"\\000\\036wfhost:process/described@0.1.0\\004\\000\\013\\017\\001\\000\\011described\\003\\000\\000\\000D\\011producers\\001\"\n"
        ".ascii \"\\014processed-by\\002\\015wit-component\\0070.258.0\\015wit-bindgen-c\\0060.61.1\"\n"
        ".section .text,\"\",@\n");
#endif  // __wasm__
#endif  // WF_IMPLEMENTED
