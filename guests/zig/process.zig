//! One process: its tasks, what they have asked for, and what has been answered.
//!
//! I1. A task's `asked` is what its function asked for in this order; running it again reads it from
//!     the start, and only what is new reaches the host.
//! I2. A task is run when one of its slots has been settled, in the order in which the tasks began.

const std = @import("std");
const builtin = @import("builtin");
const wf = @import("wfhost.zig");
const contract = @import("contract.zig");
const Payload = contract.Payload;
const Problem = contract.Problem;
const Allocator = std.mem.Allocator;

pub const gpa: Allocator = if (builtin.target.cpu.arch.isWasm()) std.heap.wasm_allocator else std.heap.smp_allocator;

/// What a process may ask at any time; nothing waits.
pub const Host = struct {
    log: *const fn (contract.Level, []const u8, ?[]const u8) void,
    whoami: *const fn () contract.Identity,
    now: *const fn () u64,
    /// At most 4,096 bytes.
    random: *const fn ([]u8) void,
};
pub var host: Host = undefined;
/// The process that runs.
pub var current: *Process = undefined;

pub fn exhausted() noreturn {
    host.log(.@"error", "out of memory", null);
    @trap();
}

pub const Entry = struct {
    name: []const u8,
    run: *const fn (*wf.Ctx, Payload) anyerror!Payload,
    fits: *const fn (Allocator, Payload) anyerror!void,
    /// The JSON Schema of its input.
    schema: []const u8,
};

pub const Kind = enum { none, answer, receive, exit, cancel, task };

/// What a function asked for once, and what is known of it.
pub const Slot = struct {
    kind: Kind,
    owner: *Task,
    state: enum { pending, done, failed } = .pending,
    tag: u64 = 0,
    /// Giving it up cancels nothing.
    keep: bool = false,
    order: u64 = 0,
    payload: Payload = .{ .json = "null" },
    problem: Problem = .{ .kind = "", .title = "" },
    decoded: ?*const anyopaque = null,
    topic: ?[]const u8 = null,
    from: ?contract.Sender = null,
    sender: contract.Sender = .{ .process = 0 },
    exit: contract.Exit = .{ .pid = 0, .ending = .completed },
    cancellation: contract.Cancellation = .{ .reason = "", .grace = 0 },
    task: ?*Task = null,
    /// It is a timer, which ends this one.
    limits: ?*Slot = null,
    /// The timer that would end it.
    timer: ?*Slot = null,
};

pub const Task = struct {
    run: *const fn (*wf.Ctx, Payload) anyerror!Payload,
    input: Payload,
    /// For what is remembered, and for one run of the function.
    arena: std.heap.ArenaAllocator,
    scratch: std.heap.ArenaAllocator,
    asked: std.ArrayList(*Slot) = .empty,
    at: usize = 0,
    suspended: bool = false,
    dirty: bool = true,
    yields: bool = false,
    /// What it is the task of; null for the entry's own.
    future: ?*Slot = null,

    fn create(run: *const fn (*wf.Ctx, Payload) anyerror!Payload, input: Payload, future: ?*Slot) *Task {
        const task = gpa.create(Task) catch exhausted();
        task.* = .{ .run = run, .input = undefined, .arena = .init(gpa), .scratch = .init(gpa), .future = future };
        task.input = copyPayload(task.arena.allocator(), input);
        current.tasks.append(gpa, task) catch exhausted();
        return task;
    }

    pub fn keep(task: *Task, comptime T: type) *T {
        return task.arena.allocator().create(T) catch exhausted();
    }

    /// The slot of what is asked for next, if this has been asked for in an earlier run.
    pub fn remembered(task: *Task, kind: Kind) ?*Slot {
        if (task.suspended) return unsettled(task);
        if (task.at == task.asked.items.len) return null;
        const slot = task.asked.items[task.at];
        if (slot.kind != kind) @panic("a function has not asked for the same when it was run again");
        task.at += 1;
        return slot;
    }

    /// In a function that is suspended but goes on nothing happens any more.
    fn unsettled(task: *Task) *Slot {
        const slot = task.scratch.allocator().create(Slot) catch exhausted();
        slot.* = .{ .kind = .none, .owner = task, .payload = .{ .bytes = &@as([4096]u8, @splat(0)) } };
        return slot;
    }

    fn slotOf(task: *Task, kind: Kind, tag: u64) *Slot {
        const slot = task.keep(Slot);
        slot.* = .{ .kind = kind, .owner = task, .tag = tag };
        task.asked.append(gpa, slot) catch exhausted();
        task.at += 1;
        return slot;
    }
    /// Remembers that something was done.
    pub fn note(task: *Task) *Slot {
        return task.slotOf(.none, 0);
    }
    pub fn ask(task: *Task, action: contract.Action) *Slot {
        const slot = task.slotOf(.answer, issue(action));
        current.answers.put(gpa, slot.tag, slot) catch exhausted();
        return slot;
    }
    pub fn exit(task: *Task, tag: u64) *Slot {
        const slot = task.slotOf(.exit, tag);
        current.exits.put(gpa, tag, slot) catch exhausted();
        return slot;
    }
    pub fn begin(task: *Task, run: *const fn (*wf.Ctx, Payload) anyerror!Payload, input: Payload) *Slot {
        const slot = task.slotOf(.task, 0);
        slot.task = Task.create(run, input, slot);
        return slot;
    }
    pub fn listen(task: *Task) *Slot {
        const slot = task.slotOf(.cancel, 0);
        if (current.cancellation) |of| {
            slot.cancellation = of;
            settle(slot, .done);
        } else current.waiting.append(gpa, slot) catch exhausted();
        return slot;
    }
    pub fn receive(task: *Task, topic: ?[]const u8, from: ?contract.Sender) *Slot {
        const slot = task.slotOf(.receive, 0);
        const arena = task.arena.allocator();
        if (topic) |text| slot.topic = copy(arena, text);
        if (from) |sender| slot.from = copySender(arena, sender);
        for (current.mail.items, 0..) |*letter, i| {
            if (!takes(slot, letter.event)) continue;
            fill(slot, letter.event);
            letter.arena.deinit();
            _ = current.mail.orderedRemove(i);
            return slot;
        }
        current.waiting.append(gpa, slot) catch exhausted();
        return slot;
    }

    fn end(task: *Task) void {
        for (current.tasks.items, 0..) |one, i| if (one == task) {
            _ = current.tasks.orderedRemove(i);
            break;
        };
        task.suspended = true;
        for (task.asked.items) |slot| giveUp(slot);
        task.asked.deinit(gpa);
        task.arena.deinit();
        task.scratch.deinit();
        gpa.destroy(task);
    }
};

const Letter = struct { arena: std.heap.ArenaAllocator, event: contract.Event };

pub const Process = struct {
    tasks: std.ArrayList(*Task) = .empty,
    root: ?*Task = null,
    next_tag: u64 = 1,
    order: u64 = 0,
    commands: std.ArrayList(contract.Command) = .empty,
    out: std.heap.ArenaAllocator,
    kept: std.heap.ArenaAllocator,
    answers: std.AutoHashMapUnmanaged(u64, *Slot) = .empty,
    exits: std.AutoHashMapUnmanaged(u64, *Slot) = .empty,
    /// Receivers and listeners in order of their beginning.
    waiting: std.ArrayList(*Slot) = .empty,
    mail: std.ArrayList(Letter) = .empty,
    cancellation: ?contract.Cancellation = null,
    cancel_heard: bool = false,
    renewal: ?contract.Renewal = null,
};

/// For what lives until the next step.
pub fn out() Allocator {
    return current.out.allocator();
}
pub fn copied(text: []const u8) []const u8 {
    return copy(out(), text);
}
fn copy(arena: Allocator, text: []const u8) []const u8 {
    return arena.dupe(u8, text) catch exhausted();
}
fn copyPayload(arena: Allocator, of: Payload) Payload {
    return switch (of) {
        .json => |text| .{ .json = copy(arena, text) },
        .bytes => |bytes| .{ .bytes = copy(arena, bytes) },
        .blob => |blob| .{ .blob = .{ .digest = copy(arena, blob.digest), .size = blob.size, .media_type = copy(arena, blob.media_type) } },
    };
}
fn copyProblem(arena: Allocator, of: Problem) Problem {
    var made = of;
    made.kind = copy(arena, of.kind);
    made.title = copy(arena, of.title);
    if (of.detail) |text| made.detail = copy(arena, text);
    if (of.data) |text| made.data = copy(arena, text);
    return made;
}
fn copySender(arena: Allocator, of: contract.Sender) contract.Sender {
    return if (of == .outside) .{ .outside = copy(arena, of.outside) } else of;
}
fn copyTarget(arena: Allocator, of: contract.Target) contract.Target {
    return switch (of) {
        .name => |name| .{ .name = copy(arena, name) },
        .run => |run| .{ .run = .{ .run = copy(arena, run.run), .name = copy(arena, run.name) } },
        else => of,
    };
}

/// Adds a command to this step's outcome. Texts may be those of the function's run: they are copied.
pub fn issue(action: contract.Action) u64 {
    const arena = out();
    var made = action;
    switch (made) {
        .spawn => |*of| {
            of.entry = copy(arena, of.entry);
            of.input = copyPayload(arena, of.input);
            if (of.with.component) |text| of.with.component = copy(arena, text);
            if (of.with.name) |text| of.with.name = copy(arena, text);
            if (of.with.narrow) |text| of.with.narrow = copy(arena, text);
        },
        .call => |*of| {
            of.handler = copy(arena, of.handler);
            of.args = copyPayload(arena, of.args);
            if (of.key) |text| of.key = copy(arena, text);
        },
        .send => |*of| of.* = .{ .to = copyTarget(arena, of.to), .topic = copy(arena, of.topic), .body = copyPayload(arena, of.body) },
        .stop, .monitor, .link, .unlink => |*target| target.* = copyTarget(arena, target.*),
        .register => |*name| name.* = copy(arena, name.*),
        .expose => |*of| of.* = .{ .query = copy(arena, of.query), .value = copyPayload(arena, of.value) },
        .sleep, .cancel => {},
    }
    const tag = current.next_tag;
    current.next_tag += 1;
    current.commands.append(gpa, .{ .tag = tag, .action = made }) catch exhausted();
    return tag;
}

fn settle(slot: *Slot, state: @FieldType(Slot, "state")) void {
    if (slot.state != .pending) return;
    slot.state = state;
    current.order += 1;
    if (slot.kind != .none) slot.order = current.order;
    if (slot.kind == .answer) _ = current.answers.remove(slot.tag);
    if (slot.kind == .exit) _ = current.exits.remove(slot.tag);
    for (current.waiting.items, 0..) |one, i| if (one == slot) {
        _ = current.waiting.orderedRemove(i);
        break;
    };
    slot.owner.dirty = true;
    if (slot.timer) |timer| {
        timer.limits = null;
        giveUp(timer);
    }
    if (slot.limits) |limited| {
        slot.limits = null;
        if (state == .done and limited.state == .pending) {
            giveUp(limited);
            limited.problem = .{ .kind = "timeout", .title = "The time is over", .class = .retryable };
        }
    }
}

fn settleFailed(slot: *Slot, problem: Problem) void {
    slot.problem = copyProblem(slot.owner.arena.allocator(), problem);
    settle(slot, .failed);
}

/// Gives up what is pending: it fails as `cancelled`, and what it asked for is cancelled.
pub fn giveUp(slot: *Slot) void {
    if (slot.state != .pending or slot.kind == .none) return;
    if (slot.kind == .answer and !slot.keep) _ = issue(.{ .cancel = slot.tag });
    slot.problem = .{ .kind = "cancelled", .title = "It was given up" };
    const task = slot.task;
    slot.task = null;
    settle(slot, .failed);
    if (task) |of| of.end();
}

fn takes(receiver: *const Slot, event: contract.Event) bool {
    const message = event.message;
    // The host may add topics of its own at any time: they reach only those that ask for them.
    if (receiver.topic) |topic| {
        if (!std.mem.eql(u8, topic, message.topic)) return false;
    } else if (std.mem.startsWith(u8, message.topic, "wfhost.")) return false;
    const from = receiver.from orelse return true;
    return switch (from) {
        .outside => |name| message.sender == .outside and std.mem.eql(u8, name, message.sender.outside),
        else => std.meta.eql(from, message.sender),
    };
}

fn fill(receiver: *Slot, event: contract.Event) void {
    const arena = receiver.owner.arena.allocator();
    receiver.topic = copy(arena, event.message.topic);
    receiver.sender = copySender(arena, event.message.sender);
    receiver.payload = copyPayload(arena, event.message.body);
    settle(receiver, .done);
}

fn deliver(event: contract.Event) void {
    switch (event) {
        .completed => |of| {
            const slot = current.answers.get(of.tag) orelse {
                if (of.answer == .problem and !std.mem.eql(u8, of.answer.problem.kind, "cancelled")) {
                    const text = std.fmt.allocPrint(out(), "command {d} failed unheard: {s}", .{ of.tag, of.answer.problem.kind });
                    host.log(.warn, text catch exhausted(), null);
                }
                return;
            };
            switch (of.answer) {
                .ok => |payload| {
                    slot.payload = copyPayload(slot.owner.arena.allocator(), payload);
                    settle(slot, .done);
                },
                .problem => |problem| settleFailed(slot, problem),
            }
        },
        .message => |message| {
            for (current.waiting.items) |slot| if (slot.kind == .receive and takes(slot, event)) return fill(slot, event);
            var letter: Letter = .{ .arena = .init(gpa), .event = undefined };
            const arena = letter.arena.allocator();
            letter.event = .{ .message = .{
                .sender = copySender(arena, message.sender),
                .topic = copy(arena, message.topic),
                .body = copyPayload(arena, message.body),
            } };
            current.mail.append(gpa, letter) catch exhausted();
        },
        .exited => |of| {
            const slot = current.exits.get(of.by) orelse return;
            const arena = slot.owner.arena.allocator();
            slot.exit = .{ .pid = of.exit.pid, .ending = switch (of.exit.ending) {
                .completed => .completed,
                .failed => |problem| .{ .failed = copyProblem(arena, problem) },
                .cancelled => |reason| .{ .cancelled = copy(arena, reason) },
            } };
            settle(slot, .done);
        },
        .cancel => |of| {
            current.cancellation = .{ .reason = copy(current.kept.allocator(), of.reason), .grace = of.grace };
            var i: usize = 0;
            while (i < current.waiting.items.len) {
                const slot = current.waiting.items[i];
                if (slot.kind != .cancel) {
                    i += 1;
                    continue;
                }
                current.cancel_heard = true;
                slot.cancellation = current.cancellation.?;
                settle(slot, .done);
            }
        },
    }
}

/// Runs a task's function. Returns how the process ends, if it does.
fn runTask(task: *Task) ?contract.Status {
    task.dirty = false;
    task.at = 0;
    task.suspended = false;
    _ = task.scratch.reset(.retain_capacity);
    var ctx: wf.Ctx = .{ .task = task, .arena = task.scratch.allocator() };
    const result = task.run(&ctx, task.input);
    if (task.suspended) return null;
    var problem: ?Problem = null;
    var output: Payload = .{ .json = "null" };
    if (result) |payload| output = payload else |err| switch (err) {
        error.Problem => problem = ctx.failure,
        error.Renewed => if (task.future == null) return .{ .renew = current.renewal.? },
        else => problem = .{ .kind = "exception", .title = @errorName(err), .detail = "returned by the entry: nothing has handled it" },
    }
    const future = task.future orelse {
        if (problem) |of| return .{ .failed = copyProblem(out(), of) };
        return .{ .complete = copyPayload(out(), output) };
    };
    future.task = null;
    if (problem) |of| {
        settleFailed(future, of);
    } else {
        future.payload = copyPayload(future.owner.arena.allocator(), output);
        settle(future, .done);
    }
    task.end();
    return null;
}

fn nextTask() ?*Task {
    for (current.tasks.items) |task| if (task.dirty) return task;
    return null;
}

fn waitsFor() contract.Status {
    for (current.tasks.items) |task| if (task.yields) return .ready;
    var listens = false;
    for (current.waiting.items) |slot| {
        if (slot.kind == .receive) return .idle;
        listens = true;
    }
    var asks = current.exits.count() > 0;
    var answers = current.answers.valueIterator();
    while (answers.next()) |slot| asks = asks or !slot.*.keep;
    return if (listens and !asks) .idle else .blocked;
}

/// Delivers events, runs the tasks as far as they go: `step` of the contract.
pub fn step(events: []const contract.Event) contract.Status {
    _ = current.out.reset(.retain_capacity);
    current.commands.clearRetainingCapacity();
    for (current.tasks.items) |task| {
        task.dirty = task.dirty or task.yields;
        task.yields = false;
    }
    for (events) |event| deliver(event);
    var ended: ?contract.Status = null;
    if (current.cancellation) |of| if (!current.cancel_heard) {
        ended = .{ .failed = .{ .kind = "cancelled", .title = "Cancelled", .detail = of.reason } };
    };
    while (ended == null) {
        const task = nextTask() orelse break;
        ended = runTask(task);
    }
    const status = ended orelse return waitsFor();
    current.root.?.end();
    current.root = null;
    return status;
}

/// `init` of the contract, for the process that is current. Returns the problem if it fails.
pub fn start(entries: []const Entry, name: []const u8, input: Payload) ?Problem {
    current.next_tag = host.whoami().next_tag;
    for (entries) |entry| {
        if (!std.mem.eql(u8, entry.name, name)) continue;
        var arena: std.heap.ArenaAllocator = .init(gpa);
        defer arena.deinit();
        entry.fits(arena.allocator(), input) catch |err|
            return .{ .kind = "bad-input", .title = "The input does not fit the entry", .detail = @errorName(err) };
        current.root = Task.create(entry.run, input, null);
        return null;
    }
    return .{ .kind = "unknown-entry", .title = "The component has no such entry", .detail = copied(name) };
}

pub fn create() *Process {
    const made = gpa.create(Process) catch exhausted();
    made.* = .{ .out = .init(gpa), .kept = .init(gpa) };
    return made;
}

pub fn destroy(process: *Process) void {
    current = process;
    if (process.root) |root| root.end();
    for (process.mail.items) |*letter| letter.arena.deinit();
    process.mail.deinit(gpa);
    process.tasks.deinit(gpa);
    process.commands.deinit(gpa);
    process.answers.deinit(gpa);
    process.exits.deinit(gpa);
    process.waiting.deinit(gpa);
    process.out.deinit();
    process.kept.deinit();
    gpa.destroy(process);
}
