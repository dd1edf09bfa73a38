// wfhost_test.h: runs a guest natively, on a host for tests: a clock that jumps, handlers that are
// functions, children, messages, names, links. Include it instead of wfhost.h, in the one test file.
//
//     #define GUEST "order.c"
//     #include "wfhost_test.h"
//     #include "order.c"
//
//     static const char *price(const char *args) { (void)args; return "20"; }
//     int main(void) {
//         wft_begin();
//         wft_handler("price", price);
//         wft_signal("approve", "{\"by\":\"Ann\"}");
//         WFT_EQUAL(wft_run("run", "{\"ids\":[1,2]}"), "{\"total\":40,\"by\":\"Ann\"}");
//         return wft_end();
//     }
#ifndef WFHOST_TEST_H
#define WFHOST_TEST_H

#include <stdio.h>
#include "wfhost.h"

void wft_begin(void);  // a new host, at 2026-01-01T00:00:00Z
int wft_end(void);     // frees it; returns how many checks have failed so far
// A handler's answer is JSON; or call one of the two below, and return NULL. Without either the call
// is never answered.
void wft_handler(const char *name, const char *(*handler)(const char *args));
void wft_refuse(const char *kind, const char *title);
void wft_answer_after(wf_micros time, const char *json);
void wft_signal(const char *name, const char *body);  // kept until it is waited for
void wft_cancel_at(wf_micros time, const char *reason);  // of the run, after this much time
// Runs an entry until it ends or nothing can happen any more: its output as JSON, else NULL.
const char *wft_run(const char *entry, const char *input);
const char *wft_problem(void);   // the kind of the problem with which it ended, else ""
const char *wft_detail(void);    // of that problem
wf_micros wft_passed(void);      // since wft_begin
const char *wft_log_line(size_t index);       // "" beyond the last
const char *wft_query(const char *name);      // what was exposed, as JSON
bool wft_called(const char *handler, const char *args);  // whether such a call was made
size_t wft_abandoned(void);      // calls that were cancelled

#define WFT_EQUAL(is, wanted) wft_equal_((is), (wanted), #is, __FILE__, __LINE__)
#define WFT_CHECK(condition) wft_check_((condition), #condition, __FILE__, __LINE__)
void wft_equal_(const char *is, const char *wanted, const char *what, const char *file, int line);
void wft_check_(bool holds, const char *what, const char *file, int line);

enum { WFT_MAX = 4096 };
typedef struct { uint64_t pid, by; wf_target of; bool link; } wft_watch_;
typedef struct {
    wf_proc *process;
    uint64_t pid, parent, tag, next_tag;
    bool ended, linked, detached, cancelled;
    wf_status status;
    char entry[64];
    wf_event queue[WFT_MAX];
    size_t queued;
} wft_process_;
typedef struct { wf_micros at; uint64_t order, pid, tag; wf_event event; bool call, is_signal, grace; char name[64]; } wft_timer_;

static struct {
    wf_arena arena;
    wft_process_ *processes[WFT_MAX];
    size_t count, handlers, signals, lines, timers, queries, calls, abandoned, watches, names;
    wf_micros now;
    uint64_t order, seed;
    wft_process_ *self;
    struct { const char *name; const char *(*handle)(const char *); } handler[64];
    struct { const char *name, *body; } signal[WFT_MAX], query[256];
    struct { const char *handler, *args; } call[WFT_MAX];
    struct { const char *name; uint64_t pid; } name[256];
    const char *line[WFT_MAX];
    wft_timer_ timer[WFT_MAX];
    wft_watch_ watch[256];
    bool refused;
    wf_problem refusal;
    wf_micros later;
    const char *later_json;
    bool delayed;
} wft_;
static int wft_failures_;

static const wf_micros WFT_START_ = 1767225600000000;

void wf_host_log(wf_level level, wf_str text, wf_opt_str fields) {
    (void)level, (void)fields;
    if (wft_.lines < WFT_MAX) wft_.line[wft_.lines++] = wf_copy_(&wft_.arena, text.ptr, text.len).ptr;
}
void wf_host_whoami(wf_identity *identity) {
    *identity = (wf_identity){{"test", 4}, wft_.self->pid, wft_.self->next_tag};
}
wf_micros wf_host_now(void) { return wft_.now; }
void wf_host_random(void *into, uint32_t len) {
    // xorshift64*, Vigna 2016
    for (uint32_t i = 0; i < len; i++) {
        wft_.seed ^= wft_.seed >> 12, wft_.seed ^= wft_.seed << 25, wft_.seed ^= wft_.seed >> 27;
        ((uint8_t *)into)[i] = (uint8_t)((wft_.seed * 2685821657736338717u) >> 56);
    }
}

void wft_check_(bool holds, const char *what, const char *file, int line) {
    if (holds) return;
    wft_failures_++;
    printf("%s:%d: it does not hold that %s\n", file, line, what);
}
void wft_equal_(const char *is, const char *wanted, const char *what, const char *file, int line) {
    if (is == wanted || (is && wanted && strcmp(is, wanted) == 0)) return;
    wft_failures_++;
    printf("%s:%d: %s\n      is %s\n  wanted %s\n", file, line, what, is ? is : "nothing", wanted ? wanted : "nothing");
    if (!is && *wft_problem()) printf("  it failed: %s, %s\n", wft_problem(), wft_detail());
}

void wft_begin(void) {
    memset(&wft_, 0, sizeof wft_);
    wft_.now = WFT_START_;
    wft_.seed = 88172645463325252u;
}
int wft_end(void) {
    for (size_t i = 0; i < wft_.count; i++) {
        if (wft_.processes[i]->process) wf_proc_free(wft_.processes[i]->process);
        free(wft_.processes[i]);
    }
    wf_free_(&wft_.arena);
    wft_.count = 0;
    return wft_failures_;
}
void wft_handler(const char *name, const char *(*handler)(const char *)) {
    wft_.handler[wft_.handlers].name = name;
    wft_.handler[wft_.handlers++].handle = handler;
}
void wft_refuse(const char *kind, const char *title) {
    wft_.refused = true;
    wft_.refusal = wf_make_problem_(&wft_.arena, kind, title, NULL);
}
void wft_answer_after(wf_micros time, const char *json) { wft_.delayed = true, wft_.later = time, wft_.later_json = json; }
wf_micros wft_passed(void) { return wft_.now - WFT_START_; }
const char *wft_log_line(size_t index) { return index < wft_.lines ? wft_.line[index] : ""; }
size_t wft_abandoned(void) { return wft_.abandoned; }
const char *wft_query(const char *name) {
    const char *found = NULL;
    for (size_t i = 0; i < wft_.queries; i++) if (strcmp(wft_.query[i].name, name) == 0) found = wft_.query[i].body;
    return found;
}
bool wft_called(const char *handler, const char *args) {
    for (size_t i = 0; i < wft_.calls; i++)
        if (strcmp(wft_.call[i].handler, handler) == 0 && strcmp(wft_.call[i].args, args) == 0) return true;
    return false;
}

static wft_process_ *wft_find_(uint64_t pid) { return pid && pid <= wft_.count ? wft_.processes[pid - 1] : NULL; }
static wf_payload wft_json_(const char *text) {
    return (wf_payload){.tag = WF_PAYLOAD_JSON, .text = wf_copy_raw_(&wft_.arena, (wf_str){text, strlen(text)})};
}
static void wft_post_(uint64_t pid, wf_event event) {
    wft_process_ *to = wft_find_(pid);
    if (to && !to->ended && to->queued < WFT_MAX) to->queue[to->queued++] = event;
}
static wf_event wft_answered_(uint64_t tag, wf_payload ok) {
    return (wf_event){.tag = WF_EVENT_COMPLETED, .completed = {.tag = tag, .answer = {.failed = 0, .ok = ok}}};
}
static wf_event wft_failed_(uint64_t tag, wf_problem problem) {
    return (wf_event){.tag = WF_EVENT_COMPLETED, .completed = {.tag = tag, .answer = {.failed = 1, .err = problem}}};
}
static wf_event wft_failed_as_(uint64_t tag, const char *kind) {
    return wft_failed_(tag, wf_make_problem_(&wft_.arena, kind, kind, NULL));
}
static wft_timer_ *wft_timer_at_(wf_micros at, uint64_t pid, uint64_t tag, wf_event event) {
    wft_timer_ *timer = &wft_.timer[wft_.timers++];
    *timer = (wft_timer_){.at = at, .order = ++wft_.order, .pid = pid, .tag = tag, .event = event};
    return timer;
}

// Starts a process. One that cannot start has ended.
static wft_process_ *wft_start_(wf_str entry, const wf_payload *input, uint64_t parent, uint64_t tag, uint64_t next_tag) {
    wft_process_ *fresh = calloc(1, sizeof *fresh);
    wft_.processes[wft_.count++] = fresh;
    *fresh = (wft_process_){.process = wf_proc_new(), .pid = wft_.count, .parent = parent, .tag = tag, .next_tag = next_tag};
    wf_proc_use(fresh->process);
    wft_.self = fresh;
    fresh->status.tag = WF_READY;
    wf_problem problem;
    if (wf_proc_init(entry, input, &problem)) {
        fresh->status.tag = WF_STATUS_FAILED;
        fresh->status.failed = wf_copy_problem_(&wft_.arena, &problem);
    }
    return fresh;
}

static wft_process_ *wft_resolve_(const wft_process_ *from, const wf_target *target) {
    if (target->tag == WF_TARGET_PROCESS) return wft_find_(target->id);
    for (size_t i = 0; target->tag == WF_TARGET_CHILD && i < wft_.count; i++)
        if (wft_.processes[i]->parent == from->pid && wft_.processes[i]->tag == target->id) return wft_.processes[i];
    for (size_t i = 0; target->tag == WF_TARGET_NAME && i < wft_.names; i++)
        if (wf_same_(target->name, (wf_str){wft_.name[i].name, strlen(wft_.name[i].name)})) return wft_find_(wft_.name[i].pid);
    return NULL;
}

static void wft_cancel_(wft_process_ *process, const char *reason) {
    if (!process || process->ended || process->cancelled) return;
    process->cancelled = true;
    wf_cancellation cancellation = {wf_copy_text_(&wft_.arena, reason), WF_SECONDS(10)};
    wft_post_(process->pid, (wf_event){.tag = WF_EVENT_CANCEL, .cancel = cancellation});
    wft_timer_at_(wft_.now + WF_SECONDS(10), process->pid, 0, (wf_event){0})->grace = true;
}

static void wft_ended_(wft_process_ *of) {
    of->ended = true;
    wf_proc_free(of->process);
    of->process = NULL;
    bool failed = of->status.tag == WF_STATUS_FAILED;
    wf_ending ending = {.tag = WF_COMPLETED};
    if (failed && wf_same_(of->status.failed.kind, (wf_str){"cancelled", 9})) ending.tag = WF_CANCELLED, ending.cancelled = of->status.failed.title;
    else if (failed) ending.tag = WF_FAILED, ending.failed = of->status.failed;
    for (size_t i = 0; i < wft_.timers; i++) if (wft_.timer[i].pid == of->pid) wft_.timer[i].at = UINT64_MAX;
    if (of->tag) wft_post_(of->parent, failed ? wft_failed_(of->tag, of->status.failed) : wft_answered_(of->tag, of->status.complete));
    for (size_t i = 0; i < wft_.watches; i++) {
        wft_watch_ *watch = &wft_.watch[i];
        wft_process_ *watcher = wft_find_(watch->pid);
        if (watch->of.id == of->pid) {
            wft_post_(watch->pid, (wf_event){.tag = WF_EVENT_EXITED, .exited = {of->pid, watch->by, ending}});
            if (watch->link && failed) wft_cancel_(watcher, "a linked process ended");
        } else if (watch->link && watch->pid == of->pid && failed) {
            wft_cancel_(wft_find_(watch->of.id), "a linked process ended");
        }
    }
    for (size_t i = 0; i < wft_.count; i++)
        if (wft_.processes[i]->parent == of->pid && !wft_.processes[i]->detached) wft_cancel_(wft_.processes[i], "its parent has ended");
}

static void wft_call_(wft_process_ *from, uint64_t tag, const wf_do_call *call) {
    const char *name = wf_copy_raw_(&wft_.arena, call->handler).ptr, *args = wf_copy_raw_(&wft_.arena, call->args.text).ptr;
    if (wft_.calls < WFT_MAX) wft_.call[wft_.calls].handler = name, wft_.call[wft_.calls++].args = args;
    if (call->timeout.some) wft_timer_at_(wft_.now + call->timeout.val, from->pid, tag, wft_failed_as_(tag, "timed-out"));
    if (strcmp(name, "signal") == 0) {
        wf_arena arena = {0};
        wft_timer_ *waiting = wft_timer_at_(UINT64_MAX, from->pid, tag, (wf_event){0});
        snprintf(waiting->name, sizeof waiting->name, "%s", wf_text(wf_get(wf_parse_in_(&arena, args, strlen(args)), "name")));
        waiting->is_signal = true;
        wf_free_(&arena);
        return;
    }
    for (size_t i = 0; i < wft_.handlers; i++) {
        if (strcmp(wft_.handler[i].name, name) != 0) continue;
        wft_.refused = wft_.delayed = false;
        const char *answer = wft_.handler[i].handle(args);
        if (wft_.delayed) wft_timer_at_(wft_.now + wft_.later, from->pid, tag, wft_answered_(tag, wft_json_(wft_.later_json)))->call = true;
        else if (wft_.refused) wft_timer_at_(wft_.now, from->pid, tag, wft_failed_(tag, wft_.refusal))->call = true;
        else if (answer) wft_timer_at_(wft_.now, from->pid, tag, wft_answered_(tag, wft_json_(answer)))->call = true;
        else wft_timer_at_(UINT64_MAX, from->pid, tag, (wf_event){0})->call = true;
        return;
    }
    wft_post_(from->pid, wft_failed_as_(tag, "unknown-handler"));
}

static void wft_give_up_(wft_process_ *from, uint64_t tag) {
    bool pending = false;
    for (size_t i = 0; i < wft_.timers; i++) {
        wft_timer_ *timer = &wft_.timer[i];
        if (timer->pid != from->pid || timer->tag != tag) continue;
        wft_.abandoned += timer->call;
        pending = true;
        timer->pid = 0, timer->at = UINT64_MAX;
    }
    for (size_t i = 0; i < wft_.count; i++)
        if (wft_.processes[i]->parent == from->pid && wft_.processes[i]->tag == tag) wft_cancel_(wft_.processes[i], "cancelled");
    if (pending) wft_post_(from->pid, wft_failed_as_(tag, "cancelled"));
}

static void wft_do_(wft_process_ *from, const wf_command *command) {
    const wf_action *action = &command->action;
    wft_process_ *to;
    switch (action->tag) {
    case WF_DO_SLEEP: wft_timer_at_(wft_.now + action->number, from->pid, command->tag, wft_answered_(command->tag, wft_json_("null"))); break;
    case WF_DO_CALL: wft_call_(from, command->tag, &action->call); break;
    case WF_DO_SPAWN: {
        wf_payload input = wf_copy_payload_(&wft_.arena, &action->spawn.input);
        wf_str entry = wf_copy_raw_(&wft_.arena, action->spawn.entry), name = wf_copy_raw_(&wft_.arena, action->spawn.name.val);
        bool linked = action->spawn.link, detached = action->spawn.detached, named = action->spawn.name.some;
        wft_process_ *child = wft_start_(entry, &input, from->pid, command->tag, 1);
        child->detached = detached;
        if (named) wft_.name[wft_.names].name = name.ptr, wft_.name[wft_.names++].pid = child->pid;
        if (linked) wft_.watch[wft_.watches++] = (wft_watch_){from->pid, command->tag, {.tag = WF_TARGET_PROCESS, .id = child->pid}, true};
        break;
    }
    case WF_DO_SEND: {
        to = wft_resolve_(from, &action->send.to);
        if (!to || to->ended) { wft_post_(from->pid, wft_failed_as_(command->tag, "no-process")); break; }
        wf_message message = {.topic = wf_copy_raw_(&wft_.arena, action->send.topic), .body = wf_copy_payload_(&wft_.arena, &action->send.body)};
        message.sender = to->pid == from->parent || from->parent != to->pid ? (wf_sender){.tag = WF_SENDER_PROCESS, .id = from->pid} : message.sender;
        if (from->parent == to->pid) message.sender = (wf_sender){.tag = WF_SENDER_CHILD, .id = from->tag};
        wft_post_(to->pid, (wf_event){.tag = WF_EVENT_MESSAGE, .message = message});
        break;
    }
    case WF_DO_CANCEL: wft_give_up_(from, action->number); break;
    case WF_DO_STOP: wft_cancel_(wft_resolve_(from, &action->target), "stopped"); break;
    case WF_DO_MONITOR:
    case WF_DO_LINK:
        to = wft_resolve_(from, &action->target);
        if (to) wft_.watch[wft_.watches++] = (wft_watch_){from->pid, command->tag, {.tag = WF_TARGET_PROCESS, .id = to->pid}, action->tag == WF_DO_LINK};
        break;
    case WF_DO_REGISTER:
        for (size_t i = 0; i < wft_.names; i++)
            if (wf_same_(action->name, (wf_str){wft_.name[i].name, strlen(wft_.name[i].name)})) {
                wft_post_(from->pid, wft_failed_as_(command->tag, "name-taken"));
                return;
            }
        wft_.name[wft_.names].name = wf_copy_raw_(&wft_.arena, action->name).ptr;
        wft_.name[wft_.names++].pid = from->pid;
        wft_post_(from->pid, wft_answered_(command->tag, wft_json_("null")));
        break;
    case WF_DO_EXPOSE:
        wft_.query[wft_.queries].name = wf_copy_raw_(&wft_.arena, action->expose.query).ptr;
        wft_.query[wft_.queries++].body = wf_copy_raw_(&wft_.arena, action->expose.value.text).ptr;
        break;
    default: break;
    }
}

// Steps a process that has something to do. Returns whether it had.
static bool wft_step_(wft_process_ *process) {
    if (process->ended || (process->status.tag != WF_READY && process->status.tag < WF_STATUS_COMPLETE && !process->queued)) return false;
    if (process->status.tag >= WF_STATUS_COMPLETE) return wft_ended_(process), true;
    wf_outcome outcome;
    wft_.self = process;
    wf_proc_use(process->process);
    wf_proc_step(process->queue, process->queued, &outcome);
    process->queued = 0;
    process->status = outcome.status;
    if (outcome.status.tag == WF_STATUS_COMPLETE) process->status.complete = wf_copy_payload_(&wft_.arena, &outcome.status.complete);
    if (outcome.status.tag == WF_STATUS_FAILED) process->status.failed = wf_copy_problem_(&wft_.arena, &outcome.status.failed);
    for (size_t i = 0; i < outcome.count; i++) {
        process->next_tag = outcome.commands[i].tag + 1;
        wft_do_(process, &outcome.commands[i]);
    }
    if (outcome.status.tag == WF_STATUS_RENEW) {
        wf_str entry = wf_copy_raw_(&wft_.arena, outcome.status.renew.entry);
        wf_payload input = wf_copy_payload_(&wft_.arena, &outcome.status.renew.input);
        wf_proc_free(process->process);
        process->process = wf_proc_new();
        wf_proc_use(process->process);
        wft_.self = process;
        wf_problem problem;
        process->status.tag = WF_READY;
        if (wf_proc_init(entry, &input, &problem)) {
            process->status.tag = WF_STATUS_FAILED;
            process->status.failed = wf_copy_problem_(&wft_.arena, &problem);
        }
    } else if (outcome.status.tag >= WF_STATUS_COMPLETE) {
        wft_ended_(process);
    }
    return true;
}

void wft_signal(const char *name, const char *body) {
    wft_.signal[wft_.signals].name = name;
    wft_.signal[wft_.signals++].body = body;
}
void wft_cancel_at(wf_micros time, const char *reason) {
    wft_timer_ *timer = wft_timer_at_(wft_.now + time, 1, 0, (wf_event){.tag = WF_EVENT_CANCEL, .cancel = {.reason = {reason, strlen(reason)}}});
    timer->tag = UINT64_MAX;
}

static bool wft_signal_arrives_(void) {
    for (size_t i = 0; i < wft_.timers; i++) {
        wft_timer_ *waiting = &wft_.timer[i];
        for (size_t j = 0; waiting->is_signal && waiting->pid && j < wft_.signals; j++) {
            if (!wft_.signal[j].name || strcmp(wft_.signal[j].name, waiting->name) != 0) continue;
            uint64_t pid = waiting->pid, tag = waiting->tag;
            for (size_t k = 0; k < wft_.timers; k++)
                if (wft_.timer[k].pid == pid && wft_.timer[k].tag == tag) wft_.timer[k].pid = 0, wft_.timer[k].at = UINT64_MAX;
            wft_post_(pid, wft_answered_(tag, wft_json_(wft_.signal[j].body)));
            wft_.signal[j].name = NULL;
            return true;
        }
    }
    return false;
}
static bool wft_time_passes_(void) {
    wft_timer_ *next = NULL;
    for (size_t i = 0; i < wft_.timers; i++)
        if (wft_.timer[i].at != UINT64_MAX && (!next || wft_.timer[i].at < next->at)) next = &wft_.timer[i];
    if (!next) return false;
    wft_timer_ due = *next;
    if (due.at > wft_.now) wft_.now = due.at;
    for (size_t i = 0; i < wft_.timers; i++)
        if (&wft_.timer[i] == next || (due.tag && wft_.timer[i].pid == due.pid && wft_.timer[i].tag == due.tag)) wft_.timer[i].at = UINT64_MAX, wft_.timer[i].pid = 0;
    wft_process_ *of = wft_find_(due.pid);
    if (due.tag == UINT64_MAX) {
        wft_cancel_(of, due.event.cancel.reason.ptr);
    } else if (due.grace && of && !of->ended) {
        of->status.tag = WF_STATUS_FAILED;
        of->status.failed = wf_make_problem_(&wft_.arena, "cancelled", "The grace period is over", NULL);
    } else if (!due.grace) {
        wft_post_(due.pid, due.event);
    }
    return true;
}

const char *wft_run(const char *entry, const char *input) {
    wf_payload payload = wft_json_(input);
    wft_process_ *root = wft_start_((wf_str){entry, strlen(entry)}, &payload, 0, 0, 1);
    for (bool busy = true; busy && !root->ended;) {
        busy = false;
        for (size_t i = 0; i < wft_.count; i++) busy |= wft_step_(wft_.processes[i]);
        busy = busy || wft_signal_arrives_() || wft_time_passes_();
    }
    if (!root->ended) {
        root->status.tag = WF_STATUS_FAILED;
        root->status.failed = wf_make_problem_(&wft_.arena, "blocked-on-nothing", "Nothing can happen any more", NULL);
    }
    return root->status.tag == WF_STATUS_COMPLETE ? root->status.complete.text.ptr : NULL;
}
const char *wft_problem(void) {
    wft_process_ *root = wft_.processes[0];
    return root && root->status.tag == WF_STATUS_FAILED ? root->status.failed.kind.ptr : "";
}
const char *wft_detail(void) {
    wft_process_ *root = wft_.processes[0];
    return root && root->status.tag == WF_STATUS_FAILED && root->status.failed.detail.some ? root->status.failed.detail.val.ptr : "";
}

#endif  // WFHOST_TEST_H
