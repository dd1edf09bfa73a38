// The counter in C: the same digests as ../src/lib.rs, from the same entry, input and events. It
// understands only the input `{"words":n}`; any other input is treated as empty.

#include <stdlib.h>
#include <string.h>

#include "process.h"

typedef process_string_t Text;
typedef wfhost_process_types_payload_t Payload;
typedef wfhost_process_types_event_t Event;
typedef wfhost_process_types_outcome_t Outcome;

enum { SEEN_MAX = 256, WORDS_MAX = 1 << 20, WORDS_DEFAULT = 8192 };

typedef struct {
    uint64_t key;
    uint8_t *text;
    size_t len;
} Seen;

static struct {
    uint64_t tag, digest, steps;
    uint64_t *heap;
    size_t words;
    // Sorted by key. One more than remain, for the moment between an insertion and a removal.
    Seen seen[SEEN_MAX + 1];
    size_t seen_count;
} state;

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
static uint64_t mix(uint64_t n) {
    n += 0x9e3779b97f4a7c15;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
    n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
    return n ^ (n >> 31);
}

// The first entry whose key is not smaller.
static size_t seen_from(uint64_t key) {
    size_t at = 0;
    while (at < state.seen_count && state.seen[at].key < key) at++;
    return at;
}

static void seen_remove(size_t at) {
    free(state.seen[at].text);
    state.seen_count--;
    memmove(&state.seen[at], &state.seen[at + 1], (state.seen_count - at) * sizeof(Seen));
}

static void seen_insert(uint64_t key, const uint8_t *text, size_t len) {
    size_t at = seen_from(key);
    if (at < state.seen_count && state.seen[at].key == key) seen_remove(at);
    memmove(&state.seen[at + 1], &state.seen[at], (state.seen_count - at) * sizeof(Seen));
    state.seen[at] = (Seen){.key = key, .text = malloc(len ? len : 1), .len = len};
    if (!state.seen[at].text) abort();
    memcpy(state.seen[at].text, text, len);
    state.seen_count++;
}

static void hear(const void *bytes, size_t len) {
    const uint8_t *text = bytes;
    for (size_t i = 0; i < len; i++) state.digest = mix(state.digest ^ text[i]);
    seen_insert(state.digest, text, len);
    if (state.seen_count > SEEN_MAX) {
        size_t at = seen_from(mix(state.digest));
        seen_remove(at < state.seen_count ? at : 0);
    }
}

static void hear_payload(const Payload *payload) {
    switch (payload->tag) {
    case WFHOST_PROCESS_TYPES_PAYLOAD_JSON:
        hear(payload->val.json.ptr, payload->val.json.len);
        break;
    case WFHOST_PROCESS_TYPES_PAYLOAD_BYTES:
        hear(payload->val.bytes.ptr, payload->val.bytes.len);
        break;
    default:
        hear(payload->val.blob.digest.ptr, payload->val.blob.digest.len);
    }
}

// Walks over a part of the heap chosen by the digest; grows it now and then.
static uint64_t work(void) {
    state.steps++;
    if (state.steps % 64 == 0) {
        state.heap = realloc(state.heap, (state.words + 512) * sizeof *state.heap);
        if (!state.heap) abort();
        for (uint64_t n = 0; n < 512; n++) state.heap[state.words + n] = mix(state.words + n);
        state.words += 512;
    }
    for (int i = 0; i < 256; i++) {
        size_t at = (size_t)(state.digest % state.words);
        state.heap[at] = ((state.heap[at] << 7) | (state.heap[at] >> 57)) ^ state.digest;
        state.digest = mix(state.digest ^ state.heap[at]);
    }
    size_t from = seen_from(state.digest);
    for (size_t at = from; at < state.seen_count && at < from + 3; at++) {
        state.digest = mix(state.digest ^ state.seen[at].key ^ (uint64_t)state.seen[at].len);
    }
    return state.digest;
}

// Returns whether the process is to end.
static bool take(const Event *event) {
    switch (event->tag) {
    case WFHOST_PROCESS_TYPES_EVENT_MESSAGE: {
        const wfhost_process_types_message_t *message = &event->val.message;
        hear_payload(&message->body);
        return message->topic.len == 3 && memcmp(message->topic.ptr, "end", 3) == 0;
    }
    case WFHOST_PROCESS_TYPES_EVENT_COMPLETED:
        if (event->val.completed.answer.is_err) {
            hear("problem", 7);
        } else {
            hear_payload(&event->val.completed.answer.val.ok);
        }
        return false;
    case WFHOST_PROCESS_TYPES_EVENT_EXITED:
        hear("exited", 6);
        return false;
    default:
        return true;
    }
}

static Payload digest_text(void) {
    char text[18] = {'"'};
    for (int i = 0; i < 16; i++) text[1 + i] = "0123456789abcdef"[(state.digest >> (60 - 4 * i)) & 15];
    text[17] = '"';
    Payload payload = {.tag = WFHOST_PROCESS_TYPES_PAYLOAD_JSON};
    process_string_dup_n(&payload.val.json, text, sizeof text);
    return payload;
}

static size_t words_of(const Payload *input) {
    static const char HEAD[] = "{\"words\":";
    if (input->tag != WFHOST_PROCESS_TYPES_PAYLOAD_JSON) return WORDS_DEFAULT;
    Text json = input->val.json;
    size_t at = sizeof HEAD - 1, words = 0;
    if (json.len < at + 2 || memcmp(json.ptr, HEAD, at) != 0) return WORDS_DEFAULT;
    for (; at < json.len && json.ptr[at] >= '0' && json.ptr[at] <= '9' && words < WORDS_MAX; at++) {
        words = words * 10 + (size_t)(json.ptr[at] - '0');
    }
    return words < 1 ? 1 : words > WORDS_MAX ? WORDS_MAX : words;
}

bool exports_wfhost_process_guest_init(process_string_t *entry, exports_wfhost_process_guest_payload_t *input,
                                       exports_wfhost_process_guest_problem_t *err) {
    bool known = entry->len == 3 && memcmp(entry->ptr, "run", 3) == 0;
    if (known) {
        wfhost_process_host_identity_t me;
        wfhost_process_host_whoami(&me);
        state.tag = me.next_tag;
        wfhost_process_host_identity_free(&me);
        state.digest = 1;
        state.words = words_of(input);
        state.heap = malloc(state.words * sizeof *state.heap);
        if (!state.heap) abort();
        for (size_t i = 0; i < state.words; i++) state.heap[i] = mix(i);
    } else {
        memset(err, 0, sizeof *err);
        process_string_dup(&err->kind, "unknown-entry");
        process_string_dup(&err->title, "The component has no such entry");
        err->detail.is_some = true;
        process_string_dup_n(&err->detail.val, (const char *)entry->ptr, entry->len);
    }
    process_string_free(entry);
    exports_wfhost_process_guest_payload_free(input);
    return known;
}

void exports_wfhost_process_guest_step(exports_wfhost_process_guest_list_event_t *events, Outcome *ret) {
    bool end = false;
    for (size_t i = 0; i < events->len; i++) end |= take(&events->ptr[i]);
    exports_wfhost_process_guest_list_event_free(events);
    work();
    memset(ret, 0, sizeof *ret);
    if (end) {
        ret->status.tag = WFHOST_PROCESS_TYPES_STATUS_COMPLETE;
        ret->status.val.complete = digest_text();
        // An empty list still needs a pointer that is aligned and not null.
        ret->commands.ptr = (wfhost_process_types_command_t *)_Alignof(wfhost_process_types_command_t);
        return;
    }
    ret->status.tag = WFHOST_PROCESS_TYPES_STATUS_IDLE;
    wfhost_process_types_command_t *command = calloc(1, sizeof *command);
    if (!command) abort();
    command->tag = state.tag++;
    command->action.tag = WFHOST_PROCESS_TYPES_ACTION_EXPOSE;
    process_string_dup(&command->action.val.expose.query, "digest");
    command->action.val.expose.value = digest_text();
    ret->commands = (wfhost_process_types_list_command_t){command, 1};
}

void exports_wfhost_process_guest_close(void) {}
