//! Guests of wfhost in Zig. README.md tells how to use and build it.
//!
//!     const wf = @import("wfhost");
//!
//!     fn run(ctx: *wf.Ctx, in: struct { url: []const u8 }) !u16 {
//!         const page = try ctx.call(struct { status: u16 }, "http", .{ .url = in.url }, .{}).wait();
//!         return page.status;
//!     }
//!     comptime {
//!         wf.exports(.{ .run = run }, "Fetches a page.");
//!     }
//!
//! Zig has no coroutines. A function that waits for what is not known yet returns `error.Suspended`;
//! when it is known, the function is run again from its start, and whatever it asked for already
//! is remembered: nothing is asked twice, no line is logged twice. So it must do the same each time:
//! its data come from its input and from `ctx`, not from global variables. `ctx.start` and `ctx.map`
//! run functions that are remembered as a whole, which keeps long loops cheap.

const std = @import("std");
const builtin = @import("builtin");
pub const contract = @import("contract.zig");
pub const process = @import("process.zig");
pub const testing = @import("testing.zig");

pub const Payload = contract.Payload;
pub const Problem = contract.Problem;
pub const Sender = contract.Sender;
pub const Target = contract.Target;
pub const Exit = contract.Exit;
pub const Cancellation = contract.Cancellation;
pub const Level = contract.Level;
const Slot = process.Slot;
const Task = process.Task;

/// Bytes that are not JSON.
pub const Bytes = struct { data: []const u8 };

/// An input or an answer that does not matter.
pub const Ignored = struct {};

/// Of everything that waits. `Suspended` must reach the caller; `Problem`: see `Ctx.problem`.
pub const Error = error{ Suspended, Problem };

pub fn ms(n: u64) u64 {
    return n * 1_000;
}
pub fn seconds(n: u64) u64 {
    return n * 1_000_000;
}
pub fn hours(n: u64) u64 {
    return seconds(n * 3600);
}

pub const Call = struct {
    /// In microseconds.
    timeout: ?u64 = null,
    key: ?[]const u8 = null,
};
pub const Spawn = struct {
    component: ?[]const u8 = null,
    name: ?[]const u8 = null,
    link: bool = false,
    detached: bool = false,
    /// A JSON object: a part of this process's limits and grants.
    narrow: ?[]const u8 = null,
};
pub const Receive = struct { topic: ?[]const u8 = null, from: ?Sender = null };

pub fn Message(comptime T: type) type {
    return struct {
        sender: Sender,
        topic: []const u8,
        body: T,
        pub const is_message = true;
    };
}

/// What will be known: an answer, a message, an exit, the end of a task.
pub fn Future(comptime T: type) type {
    return struct {
        slot: *Slot,
        ctx: *Ctx,
        const Self = @This();

        /// Waits until it is known.
        pub fn wait(self: Self) Error!T {
            try self.settled();
            if (self.slot.state == .failed) {
                self.ctx.failure = self.slot.problem;
                return error.Problem;
            }
            if (T == void) return;
            if (self.slot.decoded) |value| return @as(*const T, @ptrCast(@alignCast(value))).*;
            const value = self.ctx.task.keep(T);
            value.* = try self.read();
            self.slot.decoded = value;
            return value.*;
        }

        /// Waits until it is known, and returns its problem if it has failed.
        pub fn outcome(self: Self) error{Suspended}!union(enum) { ok: T, problem: Problem } {
            const value = self.wait() catch |err| switch (err) {
                error.Suspended => return error.Suspended,
                error.Problem => return .{ .problem = self.ctx.failure },
            };
            return .{ .ok = value };
        }

        fn settled(self: Self) error{Suspended}!void {
            if (self.ctx.task.suspended or self.slot.state == .pending) {
                self.ctx.task.suspended = true;
                return error.Suspended;
            }
        }

        fn read(self: Self) Error!T {
            if (T == Exit) return self.slot.exit;
            if (T == Cancellation) return self.slot.cancellation;
            if (@typeInfo(T) == .@"struct" and @hasDecl(T, "is_message"))
                return .{
                    .sender = self.slot.sender,
                    .topic = self.slot.topic orelse "",
                    .body = try self.ctx.decoded(@FieldType(T, "body"), self.slot.payload),
                };
            return self.ctx.decoded(T, self.slot.payload);
        }

        /// Gives it up: what it asked for is cancelled.
        pub fn cancel(self: Self) void {
            if (self.ctx.task.remembered(.none)) |_| return;
            _ = self.ctx.task.note();
            process.giveUp(self.slot);
        }

        /// The address of the child that it is the output of.
        pub fn target(self: Self) Target {
            return .{ .child = self.slot.tag };
        }
        /// The sender of that child's messages.
        pub fn sender(self: Self) Sender {
            return .{ .child = self.slot.tag };
        }
        /// Answers that came earlier have a smaller number.
        pub fn order(self: Self) u64 {
            return self.slot.order;
        }
    };
}

/// An entry's access to its host.
pub const Ctx = struct {
    task: *Task,
    /// Freed when the function is run again.
    arena: std.mem.Allocator,
    failure: Problem = .{ .kind = "exception", .title = "Nothing has failed" },

    /// The problem of the last `error.Problem`.
    pub fn problem(ctx: *Ctx) Problem {
        return ctx.failure;
    }

    fn decoded(ctx: *Ctx, comptime T: type, payload: Payload) error{Problem}!T {
        return decode(T, ctx.task.arena.allocator(), payload) catch |err| ctx.fail(.{
            .kind = if (err == error.Form) "bad-payload" else "bad-json",
            .title = "A value does not fit its type",
            .detail = @errorName(err),
        });
    }

    fn future(ctx: *Ctx, comptime T: type, slot: *Slot) Future(T) {
        return .{ .slot = slot, .ctx = ctx };
    }

    fn ask(ctx: *Ctx, comptime T: type, action: contract.Action) Future(T) {
        return ctx.future(T, ctx.task.ask(action));
    }

    /// Waits for this long, in microseconds.
    pub fn sleep(ctx: *Ctx, micros: u64) Error!void {
        return ctx.after(micros).wait();
    }
    /// Is known when this time has passed.
    pub fn after(ctx: *Ctx, micros: u64) Future(void) {
        if (ctx.task.remembered(.answer)) |slot| return ctx.future(void, slot);
        return ctx.ask(void, .{ .sleep = @min(micros, contract.micros_max) });
    }
    /// Calls a handler of the host.
    pub fn call(ctx: *Ctx, comptime T: type, handler: []const u8, args: anytype, with: Call) Future(T) {
        if (ctx.task.remembered(.answer)) |slot| return ctx.future(T, slot);
        return ctx.ask(T, .{ .call = .{ .handler = handler, .args = encode(args), .timeout = with.timeout, .key = with.key } });
    }
    /// Waits for a signal that is sent to the run from outside. Earlier ones count, each once.
    pub fn signal(ctx: *Ctx, comptime T: type, name: []const u8, with: Call) Future(T) {
        return ctx.call(T, "signal", .{ .name = name }, with);
    }
    /// Starts an entry as a child process.
    pub fn spawn(ctx: *Ctx, comptime T: type, entry: []const u8, input: anytype, with: Spawn) Future(T) {
        if (ctx.task.remembered(.answer)) |slot| return ctx.future(T, slot);
        const child = ctx.ask(T, .{ .spawn = .{ .entry = entry, .input = encode(input), .with = with } });
        child.slot.keep = with.detached;
        return child;
    }
    /// The end of a linked child: call it right after the spawn.
    pub fn exited(ctx: *Ctx, child: anytype) Future(Exit) {
        if (ctx.task.remembered(.exit)) |slot| return ctx.future(Exit, slot);
        return ctx.future(Exit, ctx.task.exit(child.slot.tag));
    }
    pub fn monitor(ctx: *Ctx, target: Target) Future(Exit) {
        if (ctx.task.remembered(.exit)) |slot| return ctx.future(Exit, slot);
        return ctx.future(Exit, ctx.task.exit(process.issue(.{ .monitor = target })));
    }
    pub fn link(ctx: *Ctx, target: Target) Future(Exit) {
        if (ctx.task.remembered(.exit)) |slot| return ctx.future(Exit, slot);
        return ctx.future(Exit, ctx.task.exit(process.issue(.{ .link = target })));
    }
    fn tell(ctx: *Ctx, action: contract.Action) void {
        if (ctx.task.remembered(.none)) |_| return;
        _ = ctx.task.note();
        _ = process.issue(action);
    }
    pub fn unlink(ctx: *Ctx, target: Target) void {
        ctx.tell(.{ .unlink = target });
    }
    pub fn stop(ctx: *Ctx, target: Target) void {
        ctx.tell(.{ .stop = target });
    }
    /// Sends a message. The future fails if it is refused, which is known one step later: ask
    /// `refusal`. It is never answered otherwise, and need not be waited for.
    pub fn send(ctx: *Ctx, to: Target, topic: []const u8, body: anytype) Sent {
        if (ctx.task.remembered(.answer)) |slot| return .{ .slot = slot, .ctx = ctx };
        const sent = ctx.task.ask(.{ .send = .{ .to = to, .topic = topic, .body = encode(body) } });
        sent.keep = true;
        return .{ .slot = sent, .ctx = ctx };
    }
    pub fn receive(ctx: *Ctx, comptime T: type, filter: Receive) Future(Message(T)) {
        if (ctx.task.remembered(.receive)) |slot| return ctx.future(Message(T), slot);
        return ctx.future(Message(T), ctx.task.receive(filter.topic, filter.from));
    }
    /// Registers this process under a name in the run.
    pub fn register(ctx: *Ctx, name: []const u8) Error!void {
        if (ctx.task.remembered(.answer)) |slot| return ctx.future(void, slot).wait();
        return ctx.ask(void, .{ .register = name }).wait();
    }
    /// Sets the value that queries of this name return from now on.
    pub fn expose(ctx: *Ctx, query: []const u8, value: anytype) void {
        if (ctx.task.remembered(.none)) |_| return;
        _ = ctx.task.note();
        _ = process.issue(.{ .expose = .{ .query = query, .value = encode(value) } });
    }
    /// Is known when the process is asked to end. While it is waited for, the process ends itself.
    pub fn cancelled(ctx: *Ctx) Future(Cancellation) {
        if (ctx.task.remembered(.cancel)) |slot| return ctx.future(Cancellation, slot);
        return ctx.future(Cancellation, ctx.task.listen());
    }
    pub fn log(ctx: *Ctx, level: Level, comptime format: []const u8, args: anytype) void {
        if (ctx.task.remembered(.none)) |_| return;
        _ = ctx.task.note();
        process.host.log(level, std.fmt.allocPrint(ctx.arena, format, args) catch process.exhausted(), null);
    }
    pub fn logWith(ctx: *Ctx, level: Level, text: []const u8, fields: anytype) void {
        if (ctx.task.remembered(.none)) |_| return;
        _ = ctx.task.note();
        process.host.log(level, text, encode(fields).json);
    }
    /// Microseconds since 1970: the time of the batch in which it is first asked here.
    pub fn now(ctx: *Ctx) u64 {
        if (ctx.task.remembered(.none)) |slot| return slot.order;
        const slot = ctx.task.note();
        slot.order = process.host.now();
        return slot.order;
    }
    /// Bytes of the process's seeded stream.
    pub fn random(ctx: *Ctx, comptime n: u16) [n]u8 {
        comptime std.debug.assert(n <= 4096);
        const slot = ctx.task.remembered(.none) orelse made: {
            const slot = ctx.task.note();
            const bytes = ctx.task.arena.allocator().alloc(u8, n) catch process.exhausted();
            process.host.random(bytes);
            slot.payload = .{ .bytes = bytes };
            break :made slot;
        };
        return slot.payload.bytes[0..n].*;
    }
    pub fn identity(_: *Ctx) contract.Identity {
        return process.host.whoami();
    }
    /// Nothing answers it.
    pub fn never(ctx: *Ctx) Future(void) {
        return ctx.future(void, ctx.task.remembered(.none) orelse ctx.task.note());
    }

    /// Runs a function beside the caller, as a task of its own that is remembered as a whole.
    pub fn start(ctx: *Ctx, comptime T: type, comptime body: anytype, input: anytype) Future(T) {
        if (ctx.task.remembered(.task)) |slot| return ctx.future(T, slot);
        return ctx.future(T, ctx.task.begin(Entry(body).run, encode(input)));
    }
    /// Waits for all of these, or for the first that fails; then the others are cancelled.
    pub fn all(ctx: *Ctx, comptime T: type, futures: []const Future(T)) Error![]T {
        try ctx.answered(futures, futures.len);
        const values = ctx.arena.alloc(T, futures.len) catch process.exhausted();
        for (values, futures) |*value, one| value.* = try one.wait();
        return values;
    }
    /// Runs a function for each item, at most `limit` at a time (0: all at once): what they return, in
    /// order; or the first that fails, and the others are given up.
    pub fn map(ctx: *Ctx, comptime T: type, limit: usize, items: anytype, comptime body: anytype) Error![]T {
        const futures = ctx.arena.alloc(Future(T), items.len) catch process.exhausted();
        var begun: usize = 0;
        var ended: usize = 0;
        while (begun < items.len) {
            if (limit > 0 and begun - ended >= limit) {
                try ctx.answered(futures[0..begun], ended + 1);
                ended += 1;
            }
            futures[begun] = ctx.start(T, body, items[begun]);
            begun += 1;
        }
        return ctx.all(T, futures);
    }
    /// Waits until `count` of these have been answered, or for the first that fails: then the others
    /// are cancelled. What it found is remembered, as it decides what is asked for next.
    fn answered(ctx: *Ctx, futures: anytype, count: usize) Error!void {
        if (ctx.task.suspended) return error.Suspended;
        const found = ctx.task.remembered(.none) orelse made: {
            var failed: ?usize = null;
            var done: usize = 0;
            for (futures, 0..) |one, i| {
                if (one.slot.state == .done) done += 1;
                if (one.slot.state == .failed and (failed == null or one.slot.order < futures[failed.?].slot.order)) failed = i;
            }
            if (failed == null and done < count) {
                ctx.task.suspended = true;
                return error.Suspended;
            }
            const found = ctx.task.note();
            found.order = if (failed) |i| i + 1 else 0;
            if (failed != null) for (futures) |one| process.giveUp(one.slot);
            break :made found;
        };
        if (found.order == 0) return;
        return ctx.fail(futures[@intCast(found.order - 1)].slot.problem);
    }
    /// Waits for the first of a tuple of futures, and cancels the others: its index.
    pub fn race(ctx: *Ctx, futures: anytype) error{Suspended}!usize {
        const fields = @typeInfo(@TypeOf(futures)).@"struct".field_names;
        var slots: [fields.len]*Slot = undefined;
        inline for (fields, 0..) |name, i| slots[i] = @field(futures, name).slot;
        return ctx.raceOf(&slots);
    }
    fn raceOf(ctx: *Ctx, slots: []const *Slot) error{Suspended}!usize {
        if (ctx.task.suspended) return error.Suspended;
        // The winner is remembered once there is one: as nothing else is asked before, its place is kept.
        if (ctx.task.remembered(.none)) |slot| return @intCast(slot.order);
        var winner: ?usize = null;
        for (slots, 0..) |slot, i| {
            if (slot.state == .pending) continue;
            if (winner == null or slot.order < slots[winner.?].order) winner = i;
        }
        const found = winner orelse {
            ctx.task.suspended = true;
            return error.Suspended;
        };
        ctx.task.note().order = found;
        for (slots, 0..) |slot, i| if (i != found) process.giveUp(slot);
        return found;
    }
    /// Limits how long a future may take: then it fails as `timeout`, and is cancelled.
    pub fn timeout(ctx: *Ctx, limited: anytype, micros: u64) @TypeOf(limited) {
        const timer = ctx.after(micros);
        if (ctx.task.suspended) return limited;
        if (limited.slot.state != .pending) process.giveUp(timer.slot) else if (timer.slot.state == .pending) {
            timer.slot.limits = limited.slot;
            limited.slot.timer = timer.slot;
        }
        return limited;
    }
    /// Lets other processes run: the host steps this one again at once.
    pub fn yield(ctx: *Ctx) error{Suspended}!void {
        if (ctx.task.remembered(.none)) |_| return;
        if (ctx.task.suspended) return error.Suspended;
        _ = ctx.task.note();
        ctx.task.yields = true;
        ctx.task.suspended = true;
        return error.Suspended;
    }

    /// What `return ctx.fail(.{ .kind = "out-of-stock", .title = "Sold out" })` ends a function with.
    pub fn fail(ctx: *Ctx, with: Problem) error{Problem} {
        ctx.failure = with;
        return error.Problem;
    }
    /// Ends it as `exception`, with a text and this place: `return ctx.throw(@src(), "no good")`.
    pub fn throw(ctx: *Ctx, at: std.lang.SourceLocation, text: []const u8) error{Problem} {
        const place = std.fmt.allocPrint(ctx.arena, "{s}:{d}:{d}", .{ at.file, at.line, at.column }) catch process.exhausted();
        return ctx.fail(.{
            .kind = "exception",
            .title = text,
            .detail = place,
            .data = encode(.{ .at = .{ .path = at.file, .line = at.line, .column = at.column } }).json,
        });
    }
    /// Continues as a fresh instance with an empty history: `return ctx.renew("run", state)`.
    pub fn renew(ctx: *Ctx, entry: []const u8, input: anytype) error{Renewed} {
        if (!ctx.task.suspended) process.current.renewal = .{ .entry = process.copied(entry), .input = encode(input) };
        return error.Renewed;
    }
};

/// A message on its way.
pub const Sent = struct {
    slot: *Slot,
    ctx: *Ctx,
    /// Why it was not delivered, as far as that is known: not before the next event.
    pub fn refusal(self: Sent) ?Problem {
        const known = self.ctx.task.remembered(.none) orelse made: {
            const known = self.ctx.task.note();
            known.order = @intFromBool(self.slot.state == .failed);
            break :made known;
        };
        return if (known.order == 1) self.slot.problem else null;
    }
};

/// Reads a payload: `Payload` and `Bytes` unchanged, all else as JSON.
pub fn decode(comptime T: type, arena: std.mem.Allocator, payload: Payload) !T {
    if (T == Payload) return payload;
    if (T == Ignored or T == void) return if (T == void) {} else .{};
    if (T == Bytes) return if (payload == .bytes) .{ .data = payload.bytes } else error.Form;
    if (payload != .json) return error.Form;
    return std.json.parseFromSliceLeaky(T, arena, payload.json, .{ .ignore_unknown_fields = true, .allocate = .alloc_always });
}

/// Makes a payload, which lives until the next step.
pub fn encode(value: anytype) Payload {
    const T = @TypeOf(value);
    if (T == Payload) return value;
    if (T == Bytes) return .{ .bytes = process.copied(value.data) };
    if (T == void or T == Ignored or T == @TypeOf(null)) return .{ .json = "null" };
    const text = std.json.Stringify.valueAlloc(process.out(), value, .{ .emit_null_optional_fields = true }) catch process.exhausted();
    return .{ .json = text };
}

fn Entry(comptime body: anytype) type {
    const types = @typeInfo(@TypeOf(body)).@"fn".param_types;
    return struct {
        fn run(ctx: *Ctx, input: Payload) anyerror!Payload {
            const output = if (types.len == 1) try body(ctx) else output: {
                const in = decode(types[1].?, ctx.arena, input) catch |err| return ctx.fail(.{
                    .kind = "bad-input",
                    .title = "The input does not fit the entry",
                    .detail = @errorName(err),
                });
                break :output try body(ctx, in);
            };
            return if (ctx.task.suspended) error.Suspended else encode(output);
        }
        /// Whether an input fits.
        fn fits(arena: std.mem.Allocator, input: Payload) anyerror!void {
            if (types.len > 1) _ = try decode(types[1].?, arena, input);
        }
    };
}

/// The JSON Schema of a type, as std.json reads it.
pub fn schema(comptime T: type) []const u8 {
    if (T == Payload or T == Bytes or T == Ignored or T == std.json.Value) return "{}";
    return switch (@typeInfo(T)) {
        .bool => "{\"type\":\"boolean\"}",
        .int => "{\"type\":\"integer\"}",
        .float => "{\"type\":\"number\"}",
        .@"enum" => "{\"type\":\"string\"}",
        .optional => |of| "{\"anyOf\":[" ++ schema(of.child) ++ ",{\"type\":\"null\"}]}",
        .array => |of| "{\"type\":\"array\",\"items\":" ++ schema(of.child) ++ "}",
        .pointer => |of| if (of.child == u8) "{\"type\":\"string\"}" else "{\"type\":\"array\",\"items\":" ++ schema(of.child) ++ "}",
        .@"struct" => |of| made: {
            comptime var properties: []const u8 = "";
            inline for (of.field_names, of.field_types, 0..) |name, child, i|
                properties = properties ++ (if (i > 0) "," else "") ++ "\"" ++ name ++ "\":" ++ schema(child);
            break :made "{\"type\":\"object\",\"properties\":{" ++ properties ++ "}}";
        },
        else => "{}",
    };
}

/// A component's entries, for the exports and for tests.
pub fn table(comptime entries: anytype) []const process.Entry {
    const names = @typeInfo(@TypeOf(entries)).@"struct".field_names;
    comptime var all: [names.len]process.Entry = undefined;
    inline for (names, 0..) |name, i| {
        const of = Entry(@field(entries, name));
        const types = @typeInfo(@TypeOf(@field(entries, name))).@"fn".param_types;
        all[i] = .{ .name = name, .run = of.run, .fits = of.fits, .schema = comptime if (types.len > 1) schema(types[1].?) else "{}" };
    }
    const made = all;
    return &made;
}

/// Exports these functions as the component's entries: `comptime { wf.exports(.{ .run = run }, "…"); }`.
/// Each is a `fn (*Ctx, Input) !Output`; the input may be left out.
pub fn exports(comptime entries: anytype, comptime description: []const u8) void {
    if (builtin.target.cpu.arch.isWasm()) @import("component.zig").exportAll(table(entries), description);
}

/// Logs the message of a panic before it traps: `pub const panic = wf.panic;` in the root file.
pub const panic = std.debug.FullPanic(struct {
    fn panicked(message: []const u8, _: ?usize) noreturn {
        process.host.log(.@"error", message, null);
        @trap();
    }
}.panicked);
