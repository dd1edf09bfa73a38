//! Runs guests natively, on a host for tests: its clock jumps to what happens next, its handlers are
//! functions, and children, messages, names, links and cancels work as on a host.
//!
//!     test "order" {
//!         var host: wf.testing.Host = .init(wf.table(.{ .run = run, .total = total }));
//!         defer host.deinit();
//!         host.handle("price", price);
//!         host.signal("approve", "{\"by\":\"Ann\"}");
//!         try std.testing.expectEqualStrings("{\"total\":40,\"by\":\"Ann\"}", try host.run("run", "{\"ids\":[1,2]}"));
//!     }

const std = @import("std");
const contract = @import("contract.zig");
const process = @import("process.zig");
const gpa = process.gpa;

/// How a handler answers.
pub const Answer = union(enum) {
    json: []const u8,
    bytes: []const u8,
    problem: contract.Problem,
    after: struct { micros: u64, json: []const u8 },
    never,
};
pub const Handler = *const fn (host: *Host, args: []const u8) Answer;
pub const Line = struct { level: contract.Level, text: []const u8, fields: ?[]const u8 };
pub const CallMade = struct { handler: []const u8, args: []const u8, key: ?[]const u8 };

const start: u64 = 1767225600 * 1_000_000;

const Running = struct {
    process: ?*process.Process = null,
    pid: u64,
    tag: u64,
    parent: ?*Running,
    next_tag: u64 = 1,
    detached: bool = false,
    stopped: bool = false,
    ended: bool = false,
    status: contract.Status = .ready,
    queue: std.ArrayList(contract.Event) = .empty,
};
const Timer = struct {
    at: ?u64,
    of: *Running,
    tag: u64,
    what: union(enum) { event: contract.Event, cancel: []const u8, grace },
    is_call: bool = false,
    signal: ?[]const u8 = null,
};
const Watch = struct { by: *Running, of: *Running, tag: u64, link: bool };

var current: *Host = undefined;

fn log(level: contract.Level, text: []const u8, fields: ?[]const u8) void {
    current.lines.append(current.all(), .{
        .level = level,
        .text = current.keep(text),
        .fields = if (fields) |object| current.keep(object) else null,
    }) catch unreachable;
}
fn whoami() contract.Identity {
    return .{ .run = "test", .pid = current.running.pid, .next_tag = current.running.next_tag };
}
fn now() u64 {
    return current.now;
}
fn random(into: []u8) void {
    current.prng.random().bytes(into);
}

/// A host for tests, for one run.
pub const Host = struct {
    entries: []const process.Entry,
    lines: std.ArrayList(Line) = .empty,
    calls: std.ArrayList(CallMade) = .empty,
    exposed: std.StringHashMapUnmanaged([]const u8) = .empty,
    /// How many calls were cancelled.
    abandoned: usize = 0,
    /// Of the cancels that it sends, in microseconds.
    grace: u64 = 10_000_000,
    /// The problem that the run failed with.
    problem: ?contract.Problem = null,

    arena: std.heap.ArenaAllocator = .init(gpa),
    handlers: std.StringHashMapUnmanaged(Handler) = .empty,
    signals: std.ArrayList(struct { name: []const u8, body: []const u8 }) = .empty,
    processes: std.ArrayList(*Running) = .empty,
    names: std.StringHashMapUnmanaged(*Running) = .empty,
    watches: std.ArrayList(Watch) = .empty,
    timers: std.ArrayList(Timer) = .empty,
    now: u64 = start,
    running: *Running = undefined,
    prng: std.Random.DefaultPrng = .init(1),
    cancel_at: ?u64 = null,
    cancel_reason: []const u8 = "",

    pub fn init(entries: []const process.Entry) Host {
        return .{ .entries = entries };
    }
    pub fn deinit(host: *Host) void {
        for (host.processes.items) |one| if (one.process) |of| process.destroy(of);
        host.arena.deinit();
    }
    fn all(host: *Host) std.mem.Allocator {
        return host.arena.allocator();
    }
    fn keep(host: *Host, text: []const u8) []const u8 {
        return host.all().dupe(u8, text) catch unreachable;
    }
    fn keepPayload(host: *Host, of: contract.Payload) contract.Payload {
        return switch (of) {
            .json => |text| .{ .json = host.keep(text) },
            .bytes => |bytes| .{ .bytes = host.keep(bytes) },
            .blob => of,
        };
    }
    fn keepProblem(host: *Host, of: contract.Problem) contract.Problem {
        var made = of;
        made.kind = host.keep(of.kind);
        made.title = host.keep(of.title);
        if (of.detail) |text| made.detail = host.keep(text);
        if (of.data) |text| made.data = host.keep(text);
        return made;
    }

    /// Answers the calls of a handler.
    pub fn handle(host: *Host, name: []const u8, handler: Handler) void {
        host.handlers.put(host.all(), name, handler) catch unreachable;
    }
    /// Sends a signal; it is kept until it is waited for.
    pub fn signal(host: *Host, name: []const u8, body: []const u8) void {
        host.signals.append(host.all(), .{ .name = name, .body = body }) catch unreachable;
    }
    /// Cancels the run after this many microseconds.
    pub fn cancelAfter(host: *Host, micros: u64, reason: []const u8) void {
        host.cancel_at = micros;
        host.cancel_reason = reason;
    }
    /// Microseconds that have passed for the guest.
    pub fn elapsed(host: *const Host) u64 {
        return host.now - start;
    }

    /// Runs an entry to its end: its output as JSON, or `error.Failed`, see `problem`; of the kind
    /// `blocked-on-nothing` if nothing could happen any more.
    pub fn run(host: *Host, entry: []const u8, input: []const u8) error{Failed}![]const u8 {
        current = host;
        process.host = .{ .log = log, .whoami = whoami, .now = now, .random = random };
        const root = host.begin(null, 0, entry, .{ .json = input });
        if (host.cancel_at) |micros| host.timer(.{ .at = host.now + micros, .of = root, .tag = 0, .what = .{ .cancel = host.cancel_reason } });
        var busy = true;
        while (busy and !root.ended) {
            busy = false;
            var i: usize = 0;
            while (i < host.processes.items.len) : (i += 1) busy = host.step(host.processes.items[i]) or busy;
            busy = busy or host.signalled() or host.advance();
        }
        if (!root.ended) host.problem = .{ .kind = "blocked-on-nothing", .title = "Nothing can happen any more" };
        if (root.status == .failed) host.problem = root.status.failed;
        if (root.ended and root.status == .complete) return if (root.status.complete == .json) root.status.complete.json else root.status.complete.bytes;
        return error.Failed;
    }

    fn begin(host: *Host, parent: ?*Running, tag: u64, entry: []const u8, input: contract.Payload) *Running {
        const made = host.all().create(Running) catch unreachable;
        made.* = .{ .pid = host.processes.items.len + 1, .tag = tag, .parent = parent };
        host.processes.append(host.all(), made) catch unreachable;
        host.starts(made, entry, input);
        return made;
    }
    fn starts(host: *Host, of: *Running, entry: []const u8, input: contract.Payload) void {
        of.process = process.create();
        process.current = of.process.?;
        host.running = of;
        of.status = .ready;
        if (process.start(host.entries, entry, input)) |problem| of.status = .{ .failed = host.keepProblem(problem) };
    }

    fn post(host: *Host, to: ?*Running, event: contract.Event) void {
        const of = to orelse return;
        if (!of.ended) of.queue.append(host.all(), event) catch unreachable;
    }
    fn answer(host: *Host, to: ?*Running, tag: u64, payload: contract.Payload) void {
        host.post(to, .{ .completed = .{ .tag = tag, .answer = .{ .ok = payload } } });
    }
    fn refuse(host: *Host, to: ?*Running, tag: u64, problem: contract.Problem) void {
        host.post(to, .{ .completed = .{ .tag = tag, .answer = .{ .problem = problem } } });
    }
    fn timer(host: *Host, of: Timer) void {
        host.timers.append(host.all(), of) catch unreachable;
    }

    /// Steps a process that has something to do. Returns whether it had.
    fn step(host: *Host, of: *Running) bool {
        if (of.ended) return false;
        switch (of.status) {
            .ready => {},
            .blocked, .idle => if (of.queue.items.len == 0) return false,
            else => {
                host.ends(of);
                return true;
            },
        }
        const events = of.queue.toOwnedSlice(host.all()) catch unreachable;
        host.running = of;
        process.current = of.process.?;
        of.status = process.step(events);
        const commands = host.all().dupe(contract.Command, process.current.commands.items) catch unreachable;
        for (commands) |command| {
            of.next_tag = command.tag + 1;
            host.do(of, command);
        }
        switch (of.status) {
            .renew => |renewal| {
                const entry = host.keep(renewal.entry);
                const input = host.keepPayload(renewal.input);
                process.destroy(of.process.?);
                host.starts(of, entry, input);
            },
            .complete => |output| {
                of.status = .{ .complete = host.keepPayload(output) };
                host.ends(of);
            },
            .failed => |problem| {
                of.status = .{ .failed = host.keepProblem(problem) };
                host.ends(of);
            },
            else => {},
        }
        return true;
    }

    fn do(host: *Host, by: *Running, command: contract.Command) void {
        const tag = command.tag;
        switch (command.action) {
            .sleep => |micros| host.timer(.{ .at = host.now + micros, .of = by, .tag = tag, .what = .{ .event = answered(tag, .{ .json = "null" }) } }),
            .call => |of| host.call(by, tag, of),
            .spawn => |of| {
                const child = host.begin(by, tag, host.keep(of.entry), host.keepPayload(of.input));
                child.detached = of.with.detached;
                if (of.with.name) |name| host.names.put(host.all(), host.keep(name), child) catch unreachable;
                if (of.with.link) host.watches.append(host.all(), .{ .by = by, .of = child, .tag = tag, .link = true }) catch unreachable;
            },
            .send => |of| {
                const to = host.resolve(by, of.to);
                if (to == null or to.?.ended) return host.refuse(by, tag, .{ .kind = "no-process", .title = "No such process" });
                const sender: contract.Sender = if (by.parent == to) .{ .child = by.tag } else .{ .process = by.pid };
                host.post(to, .{ .message = .{ .sender = sender, .topic = host.keep(of.topic), .body = host.keepPayload(of.body) } });
            },
            .cancel => |of| host.giveUp(by, of),
            .stop => |target| host.cancel(host.resolve(by, target), "stopped"),
            .monitor, .link => |target| if (host.resolve(by, target)) |of|
                host.watches.append(host.all(), .{ .by = by, .of = of, .tag = tag, .link = command.action == .link }) catch unreachable,
            .unlink => {},
            .register => |name| {
                if (host.names.contains(name)) return host.refuse(by, tag, .{ .kind = "name-taken", .title = "The name is taken" });
                host.names.put(host.all(), host.keep(name), by) catch unreachable;
                host.answer(by, tag, .{ .json = "null" });
            },
            .expose => |of| host.exposed.put(host.all(), host.keep(of.query), host.keep(of.value.json)) catch unreachable,
        }
    }

    fn resolve(host: *Host, by: *Running, target: contract.Target) ?*Running {
        for (host.processes.items) |one| switch (target) {
            .process => |pid| if (one.pid == pid) return one,
            .child => |tag| if (one.parent == by and one.tag == tag) return one,
            .name => |name| return host.names.get(name),
            .run => return null,
        };
        return null;
    }

    fn call(host: *Host, by: *Running, tag: u64, of: @FieldType(contract.Action, "call")) void {
        const args = if (of.args == .json) host.keep(of.args.json) else "";
        const name = host.keep(of.handler);
        host.calls.append(host.all(), .{ .handler = name, .args = args, .key = if (of.key) |key| host.keep(key) else null }) catch unreachable;
        if (of.timeout) |micros| {
            const late: contract.Event = .{ .completed = .{ .tag = tag, .answer = .{ .problem = .{ .kind = "timed-out", .title = "The call took too long" } } } };
            host.timer(.{ .at = host.now + micros, .of = by, .tag = tag, .what = .{ .event = late } });
        }
        var made: Timer = .{ .at = host.now, .of = by, .tag = tag, .what = .{ .event = answered(tag, .{ .json = "null" }) }, .is_call = true };
        if (std.mem.eql(u8, name, "signal")) {
            const Named = struct { name: []const u8 };
            made.signal = (std.json.parseFromSliceLeaky(Named, host.all(), args, .{}) catch unreachable).name;
            made.at = null;
            made.is_call = false;
            return host.timer(made);
        }
        const handler = host.handlers.get(name) orelse
            return host.refuse(by, tag, .{ .kind = "unknown-handler", .title = "No such handler" });
        switch (handler(host, args)) {
            .json => |text| made.what.event = answered(tag, .{ .json = text }),
            .bytes => |bytes| made.what.event = answered(tag, .{ .bytes = bytes }),
            .problem => |problem| made.what.event = .{ .completed = .{ .tag = tag, .answer = .{ .problem = problem } } },
            .after => |later| {
                made.at = host.now + later.micros;
                made.what.event = answered(tag, .{ .json = host.keep(later.json) });
            },
            .never => made.at = null,
        }
        host.timer(made);
    }

    fn answered(tag: u64, payload: contract.Payload) contract.Event {
        return .{ .completed = .{ .tag = tag, .answer = .{ .ok = payload } } };
    }

    /// Removes the timers of a command. Returns whether there were any.
    fn drop(host: *Host, of: *Running, tag: u64, is_cancelled: bool) bool {
        var found = false;
        var i: usize = 0;
        while (i < host.timers.items.len) {
            const one = host.timers.items[i];
            if (one.of != of or one.tag != tag) {
                i += 1;
                continue;
            }
            found = true;
            if (is_cancelled and one.is_call) host.abandoned += 1;
            _ = host.timers.orderedRemove(i);
        }
        return found;
    }
    fn giveUp(host: *Host, by: *Running, tag: u64) void {
        for (host.processes.items) |one| if (one.parent == by and one.tag == tag) host.cancel(one, "given up");
        if (host.drop(by, tag, true)) host.refuse(by, tag, .{ .kind = "cancelled", .title = "Cancelled" });
    }
    fn cancel(host: *Host, to: ?*Running, reason: []const u8) void {
        const of = to orelse return;
        if (of.ended or of.stopped) return;
        of.stopped = true;
        host.post(of, .{ .cancel = .{ .reason = reason, .grace = host.grace } });
        host.timer(.{ .at = host.now + host.grace, .of = of, .tag = 0, .what = .grace });
    }

    fn ends(host: *Host, of: *Running) void {
        of.ended = true;
        process.destroy(of.process.?);
        of.process = null;
        var i: usize = 0;
        while (i < host.timers.items.len) {
            if (host.timers.items[i].of == of) _ = host.timers.orderedRemove(i) else i += 1;
        }
        const problem: ?contract.Problem = if (of.status == .failed) of.status.failed else null;
        var ending: contract.Ending = .completed;
        if (problem) |why| ending = if (std.mem.eql(u8, why.kind, "cancelled")) .{ .cancelled = why.title } else .{ .failed = why };
        if (problem) |why| host.refuse(of.parent, of.tag, why) else host.answer(of.parent, of.tag, of.status.complete);
        for (host.watches.items) |watch| {
            if (watch.of == of) host.post(watch.by, .{ .exited = .{ .by = watch.tag, .exit = .{ .pid = of.pid, .ending = ending } } });
            if (!watch.link or problem == null) continue;
            if (watch.of == of) host.cancel(watch.by, "a linked process has ended");
            if (watch.by == of) host.cancel(watch.of, "a linked process has ended");
        }
        for (host.processes.items) |one| if (one.parent == of and !one.detached) host.cancel(one, "its parent has ended");
    }

    fn signalled(host: *Host) bool {
        for (host.timers.items) |waiting| for (host.signals.items, 0..) |one, i| {
            const name = waiting.signal orelse continue;
            if (!std.mem.eql(u8, name, one.name)) continue;
            _ = host.signals.orderedRemove(i);
            _ = host.drop(waiting.of, waiting.tag, false);
            host.answer(waiting.of, waiting.tag, .{ .json = one.body });
            return true;
        };
        return false;
    }

    /// Lets the time pass until something happens. Returns whether anything does.
    fn advance(host: *Host) bool {
        var next: ?usize = null;
        for (host.timers.items, 0..) |one, i| {
            const at = one.at orelse continue;
            if (next == null or at < host.timers.items[next.?].at.?) next = i;
        }
        const due = host.timers.orderedRemove(next orelse return false);
        host.now = @max(host.now, due.at.?);
        switch (due.what) {
            .event => |event| {
                _ = host.drop(due.of, due.tag, false);
                host.post(due.of, event);
            },
            .cancel => |reason| host.cancel(due.of, reason),
            .grace => due.of.status = .{ .failed = .{ .kind = "cancelled", .title = "The grace period is over" } },
        }
        return true;
    }
};
