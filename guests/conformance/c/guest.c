// The conformance guest in C, on the bindings of wit-bindgen. ../README.md describes what it does.
//
// The bindings free what a step returns, so everything returned is allocated. What a step is given
// belongs to the guest, which stores none of it and frees the batch at the end of the step.

#include <stdlib.h>
#include <string.h>

#include "process.h"

typedef process_string_t Text;
typedef wfhost_process_types_payload_t Payload;
typedef wfhost_process_types_problem_t Problem;
typedef wfhost_process_types_event_t Event;
typedef wfhost_process_types_outcome_t Outcome;
typedef wfhost_process_types_command_t Command;
typedef wfhost_process_types_completion_t Completion;
typedef wfhost_process_types_message_t Message;

enum { COUNT_MAX = 1000 };
static const uint64_t MICROS_MAX = (1ull << 53) - 1;

typedef enum { ECHO, SLEEP, CALL, CONCURRENT, SPAWN, MESSAGE, PONGER, CANCEL, FAILURE, IMPORTS } Entry;

static const char *const ENTRIES[] = {"echo",    "sleep",  "call",   "concurrent", "spawn",
                                      "message", "ponger", "cancel", "failure",    "imports"};

static struct {
    Entry entry;
    uint64_t first;
    bool started;
    Payload echo;
    uint64_t micros;
    Text handler, args;
    // `concurrent` and `spawn`: the number of commands, and how many are unanswered.
    size_t count, left;
    uint64_t order[COUNT_MAX];
    Text outputs[COUNT_MAX];
} state;

// Texts

static Text text_of(const char *literal) {
    Text text;
    process_string_dup(&text, literal);
    return text;
}

static Text text_copy(Text from) {
    Text text;
    process_string_dup_n(&text, (const char *)from.ptr, from.len);
    return text;
}

static bool text_is(Text text, const char *literal) {
    return text.len == strlen(literal) && memcmp(text.ptr, literal, text.len) == 0;
}

static process_option_string_t some(Text text) { return (process_option_string_t){.is_some = true, .val = text}; }

// A text that grows.
typedef struct {
    Text text;
    size_t capacity;
} Buffer;

static void append_bytes(Buffer *buffer, const void *bytes, size_t len) {
    if (buffer->text.len + len > buffer->capacity) {
        buffer->capacity = 2 * (buffer->text.len + len);
        buffer->text.ptr = realloc(buffer->text.ptr, buffer->capacity);
        if (!buffer->text.ptr) abort();
    }
    memcpy(buffer->text.ptr + buffer->text.len, bytes, len);
    buffer->text.len += len;
}

static void append(Buffer *buffer, const char *literal) { append_bytes(buffer, literal, strlen(literal)); }

static void append_number(Buffer *buffer, uint64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    append_bytes(buffer, digits + at, sizeof digits - at);
}

// JSON, as far as the inputs need it: an object of known members, whose values are taken as they
// are.

// The end of the value that starts at `at`, or 0.
static size_t value_end(Text json, size_t at) {
    size_t depth = 0;
    for (; at < json.len; at++) {
        uint8_t c = json.ptr[at];
        if (c == '"') {
            for (at++; at < json.len && json.ptr[at] != '"'; at++) {
                if (json.ptr[at] == '\\') at++;
            }
            if (at >= json.len) return 0;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return at;
            depth--;
        } else if (c == ',' && depth == 0) {
            return at;
        }
    }
    return 0;
}

// Takes `"name":` and the value after it from the front of `json`, which begins after `{` or `,`.
static bool member(Text *json, const char *name, Text *value) {
    size_t len = strlen(name);
    if (json->len < len + 4 || json->ptr[0] != '"' || memcmp(json->ptr + 1, name, len) != 0) return false;
    if (json->ptr[len + 1] != '"' || json->ptr[len + 2] != ':') return false;
    size_t start = len + 3, end = value_end(*json, start);
    if (end <= start) return false;
    *value = (Text){json->ptr + start, end - start};
    *json = (Text){json->ptr + end, json->len - end};
    return true;
}

static bool punctuation(Text *json, char c) {
    if (json->len == 0 || json->ptr[0] != (uint8_t)c) return false;
    *json = (Text){json->ptr + 1, json->len - 1};
    return true;
}

static bool number_of(Text text, uint64_t max, uint64_t *number) {
    if (text.len == 0 || text.len > 16 || (text.len > 1 && text.ptr[0] == '0')) return false;
    *number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
        *number = *number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    return *number <= max;
}

static bool read_number(const Payload *input, const char *name, uint64_t max, uint64_t *number) {
    if (input->tag != WFHOST_PROCESS_TYPES_PAYLOAD_JSON) return false;
    Text json = input->val.json, value;
    return punctuation(&json, '{') && member(&json, name, &value) && punctuation(&json, '}') && json.len == 0 &&
           number_of(value, max, number);
}

static bool read_count(const Payload *input) {
    uint64_t count;
    if (!read_number(input, "n", COUNT_MAX, &count)) return false;
    state.count = state.left = (size_t)count;
    return true;
}

static bool read_call(const Payload *input) {
    if (input->tag != WFHOST_PROCESS_TYPES_PAYLOAD_JSON) return false;
    Text json = input->val.json, handler, args;
    if (!punctuation(&json, '{') || !member(&json, "handler", &handler) || !punctuation(&json, ',')) return false;
    if (!member(&json, "args", &args) || !punctuation(&json, '}') || json.len != 0) return false;
    // The name of a handler needs no escapes.
    if (handler.len < 2 || handler.ptr[0] != '"' || memchr(handler.ptr, '\\', handler.len)) return false;
    state.handler = text_copy((Text){handler.ptr + 1, handler.len - 2});
    state.args = text_copy(args);
    return true;
}

// Payloads, problems, outcomes

static Payload json(Text text) { return (Payload){.tag = WFHOST_PROCESS_TYPES_PAYLOAD_JSON, .val.json = text}; }

static Problem problem(const char *kind, const char *title, process_option_string_t detail) {
    return (Problem){.kind = text_of(kind),
                     .title = text_of(title),
                     .detail = detail,
                     .class_ = WFHOST_PROCESS_TYPES_PROBLEM_CLASS_DEFINITE};
}

static const process_option_string_t NONE = {.is_some = false};

static void complete(Outcome *out, Payload output) {
    out->status.tag = WFHOST_PROCESS_TYPES_STATUS_COMPLETE;
    out->status.val.complete = output;
}

static void fail(Outcome *out, Problem with) {
    out->status.tag = WFHOST_PROCESS_TYPES_STATUS_FAILED;
    out->status.val.failed = with;
}

// Makes room for commands; their tags count up from the first.
static Command *commands(Outcome *out, size_t count) {
    out->commands.len = count;
    out->commands.ptr = calloc(count, sizeof(Command));
    if (!out->commands.ptr) abort();
    for (size_t i = 0; i < count; i++) out->commands.ptr[i].tag = state.first + i;
    return out->commands.ptr;
}

static wfhost_process_types_action_t sleep_for(uint64_t micros) {
    return (wfhost_process_types_action_t){.tag = WFHOST_PROCESS_TYPES_ACTION_SLEEP, .val.sleep = micros};
}

static wfhost_process_types_action_t spawn(const char *entry, Text input) {
    return (wfhost_process_types_action_t){.tag = WFHOST_PROCESS_TYPES_ACTION_SPAWN,
                                           .val.spawn = {.entry = text_of(entry), .input = json(input)}};
}

static wfhost_process_types_action_t send(wfhost_process_types_target_t to, const char *topic, const char *body) {
    return (wfhost_process_types_action_t){
        .tag = WFHOST_PROCESS_TYPES_ACTION_SEND,
        .val.send = {.to = to, .topic = text_of(topic), .body = json(text_of(body))}};
}

static Payload imports(void) {
    Text line, fields;
    process_string_set(&line, "conformance");
    process_string_set(&fields, "{\"answer\":42}");
    wfhost_process_host_log(WFHOST_PROCESS_HOST_LEVEL_INFO, &line, &fields);
    wfhost_process_host_identity_t me;
    wfhost_process_host_whoami(&me);
    process_list_u8_t random;
    wfhost_process_host_random(8, &random);
    Buffer buffer = {0};
    append(&buffer, "{\"pid\":");
    append_number(&buffer, me.pid);
    append(&buffer, ",\"next-tag\":");
    append_number(&buffer, me.next_tag);
    append(&buffer, ",\"random\":\"");
    for (size_t i = 0; i < random.len; i++) {
        static const char HEX[] = "0123456789abcdef";
        append_bytes(&buffer, &HEX[random.ptr[i] >> 4], 1);
        append_bytes(&buffer, &HEX[random.ptr[i] & 15], 1);
    }
    append(&buffer, wfhost_process_host_now() != 0 ? "\",\"clock\":true}" : "\",\"clock\":false}");
    wfhost_process_host_identity_free(&me);
    process_list_u8_free(&random);
    return json(buffer.text);
}

static void start(Outcome *out) {
    Command *list;
    switch (state.entry) {
    case ECHO:
        complete(out, state.echo);
        break;
    case SLEEP:
        commands(out, 1)->action = sleep_for(state.micros);
        break;
    case CALL:
        commands(out, 1)->action = (wfhost_process_types_action_t){
            .tag = WFHOST_PROCESS_TYPES_ACTION_CALL, .val.call = {.handler = state.handler, .args = json(state.args)}};
        break;
    case CONCURRENT:
    case SPAWN:
        if (state.count == 0) {
            complete(out, json(text_of("[]")));
            break;
        }
        list = commands(out, state.count);
        for (size_t i = 0; i < state.count; i++) {
            if (state.entry == CONCURRENT) {
                list[i].action = sleep_for((state.count - i) * 1000);
            } else {
                Buffer input = {0};
                append_number(&input, i + 1);
                list[i].action = spawn("echo", input.text);
            }
        }
        break;
    case MESSAGE:
        list = commands(out, 2);
        list[0].action = spawn("ponger", text_of("null"));
        list[1].action = send(
            (wfhost_process_types_target_t){.tag = WFHOST_PROCESS_TYPES_TARGET_CHILD, .val.child = state.first}, "ping",
            "\"ping\"");
        break;
    case PONGER:
        break;
    case CANCEL:
        list = commands(out, 2);
        list[0].action = sleep_for(3600000000);
        list[1].action =
            (wfhost_process_types_action_t){.tag = WFHOST_PROCESS_TYPES_ACTION_CANCEL, .val.cancel = state.first};
        break;
    case FAILURE: {
        Problem asked = problem("conformance-failure", "The guest was asked to fail", some(text_of("as asked")));
        asked.status = 503;
        asked.class_ = WFHOST_PROCESS_TYPES_PROBLEM_CLASS_RETRYABLE;
        asked.retry_after = (wfhost_process_types_option_micros_t){.is_some = true, .val = 250000};
        asked.data = some(text_of("{\"asked\":true}"));
        fail(out, asked);
        break;
    }
    case IMPORTS:
        complete(out, imports());
        break;
    }
}

// Events. Each function copies what it stores: the batch is freed as a whole.

static Problem problem_copy(const Problem *from) {
    Problem copy = *from;
    copy.kind = text_copy(from->kind);
    copy.title = text_copy(from->title);
    if (from->detail.is_some) copy.detail.val = text_copy(from->detail.val);
    if (from->data.is_some) copy.data.val = text_copy(from->data.val);
    return copy;
}

static Payload payload_copy(const Payload *from) {
    Payload copy = *from;
    switch (from->tag) {
    case WFHOST_PROCESS_TYPES_PAYLOAD_JSON:
        copy.val.json = text_copy(from->val.json);
        break;
    case WFHOST_PROCESS_TYPES_PAYLOAD_BYTES: {
        Text bytes = text_copy((Text){from->val.bytes.ptr, from->val.bytes.len});
        copy.val.bytes = (process_list_u8_t){bytes.ptr, bytes.len};
        break;
    }
    default:
        copy.val.blob.digest = text_copy(from->val.blob.digest);
        copy.val.blob.media_type = text_copy(from->val.blob.media_type);
    }
    return copy;
}

static void answered_cancel(const Completion *completion, Outcome *out) {
    if (!completion->answer.is_err) {
        fail(out, problem("not-cancelled", "The sleep was not cancelled", NONE));
        return;
    }
    Text kind = completion->answer.val.err.kind;
    Buffer buffer = {0};
    append(&buffer, "\"");
    append_bytes(&buffer, kind.ptr, kind.len);
    append(&buffer, "\"");
    complete(out, json(buffer.text));
}

static void complete_list(Outcome *out) {
    Buffer buffer = {0};
    append(&buffer, "[");
    for (size_t i = 0; i < state.count; i++) {
        if (i) append(&buffer, ",");
        if (state.entry == CONCURRENT) {
            append_number(&buffer, state.order[i]);
        } else {
            append_bytes(&buffer, state.outputs[i].ptr, state.outputs[i].len);
        }
    }
    append(&buffer, "]");
    complete(out, json(buffer.text));
}

// Returns whether the event ends the process.
static bool answered(const Completion *completion, Outcome *out) {
    if (completion->tag < state.first) return false;
    uint64_t index = completion->tag - state.first;
    if (state.entry == CANCEL) {
        if (index == 0) answered_cancel(completion, out);
        return index == 0;
    }
    if (completion->answer.is_err) {
        fail(out, problem_copy(&completion->answer.val.err));
        return true;
    }
    const Payload *answer = &completion->answer.val.ok;
    switch (state.entry) {
    case SLEEP:
        complete(out, json(text_of("null")));
        return true;
    case CALL:
        complete(out, payload_copy(answer));
        return true;
    case CONCURRENT:
        state.order[state.count - state.left] = completion->tag;
        break;
    case SPAWN:
        if (index >= state.count || answer->tag != WFHOST_PROCESS_TYPES_PAYLOAD_JSON) return false;
        state.outputs[index] = text_copy(answer->val.json);
        break;
    default:
        return false;
    }
    if (--state.left > 0) return false;
    complete_list(out);
    return true;
}

static bool received(const Message *message, Outcome *out) {
    if (state.entry == MESSAGE && text_is(message->topic, "pong")) {
        complete(out, payload_copy(&message->body));
        return true;
    }
    bool from_process = message->sender.tag == WFHOST_PROCESS_TYPES_SENDER_PROCESS;
    if (state.entry == PONGER && text_is(message->topic, "ping") && from_process) {
        wfhost_process_types_target_t to = {.tag = WFHOST_PROCESS_TYPES_TARGET_PROCESS,
                                            .val.process = message->sender.val.process};
        commands(out, 1)->action = send(to, "pong", "\"pong\"");
        complete(out, json(text_of("null")));
        return true;
    }
    return false;
}

static bool hear(const Event *event, Outcome *out) {
    switch (event->tag) {
    case WFHOST_PROCESS_TYPES_EVENT_COMPLETED:
        return answered(&event->val.completed, out);
    case WFHOST_PROCESS_TYPES_EVENT_MESSAGE:
        return received(&event->val.message, out);
    case WFHOST_PROCESS_TYPES_EVENT_CANCEL:
        fail(out, problem("cancelled", "The guest was cancelled", some(text_copy(event->val.cancel.reason))));
        return true;
    default:
        return false;
    }
}

// The exports

static bool read_input(Payload *input) {
    switch (state.entry) {
    case ECHO:
        state.echo = payload_copy(input);
        return true;
    case SLEEP:
        return read_number(input, "micros", MICROS_MAX, &state.micros);
    case CALL:
        return read_call(input);
    case CONCURRENT:
    case SPAWN:
        return read_count(input);
    default:
        return true;
    }
}

bool exports_wfhost_process_guest_init(process_string_t *entry, exports_wfhost_process_guest_payload_t *input,
                                       exports_wfhost_process_guest_problem_t *err) {
    size_t found = 0, count = sizeof ENTRIES / sizeof *ENTRIES;
    while (found < count && !text_is(*entry, ENTRIES[found])) found++;
    bool fits = found < count;
    if (fits) {
        wfhost_process_host_identity_t me;
        wfhost_process_host_whoami(&me);
        state.first = me.next_tag;
        wfhost_process_host_identity_free(&me);
        state.entry = (Entry)found;
        fits = read_input(input);
        if (!fits) *err = problem("bad-input", "The input does not fit the entry", NONE);
    } else {
        *err = problem("unknown-entry", "The component has no such entry", some(text_copy(*entry)));
    }
    process_string_free(entry);
    exports_wfhost_process_guest_payload_free(input);
    return fits;
}

void exports_wfhost_process_guest_step(exports_wfhost_process_guest_list_event_t *events,
                                       exports_wfhost_process_guest_outcome_t *ret) {
    bool idle = state.entry == MESSAGE || state.entry == PONGER;
    memset(ret, 0, sizeof *ret);
    ret->status.tag = idle ? WFHOST_PROCESS_TYPES_STATUS_IDLE : WFHOST_PROCESS_TYPES_STATUS_BLOCKED;
    bool begins = !state.started;
    state.started = true;
    if (begins && state.entry != PONGER) {
        start(ret);
    } else {
        for (size_t i = 0; i < events->len && !hear(&events->ptr[i], ret); i++) {
        }
    }
    // An empty list still needs a pointer that is aligned and not null.
    if (ret->commands.len == 0) ret->commands.ptr = (Command *)_Alignof(Command);
    exports_wfhost_process_guest_list_event_free(events);
}

void exports_wfhost_process_guest_close(void) {}
