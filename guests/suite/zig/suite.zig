//! The conformance suite in Zig. ../README.md says what each entry does.

const std = @import("std");
const wf = @import("wfhost");
const Ctx = wf.Ctx;
const Ignored = wf.Ignored;
const Value = std.json.Value;

pub const panic = wf.panic;

const Ms = struct { ms: u64 };
const parent: wf.Target = .{ .name = "parent" };

// Values, time, problems

fn echo(_: *Ctx, input: Value) !Value {
    return input;
}

fn clock(ctx: *Ctx, in: Ms) !struct { still: bool, waited: bool, recent: bool } {
    const before = ctx.now();
    const again = ctx.now();
    try ctx.sleep(wf.ms(in.ms));
    return .{ .still = before == again, .waited = ctx.now() - before >= wf.ms(in.ms), .recent = before > wf.seconds(1735689600) };
}

/// The indexes of futures in the order of their answers.
fn order(ctx: *Ctx, futures: anytype) ![]usize {
    const indexes = try ctx.arena.alloc(usize, futures.len);
    for (indexes, 0..) |*index, i| index.* = i;
    std.mem.sort(usize, indexes, futures, struct {
        fn before(all: @TypeOf(futures), a: usize, b: usize) bool {
            return all[a].order() < all[b].order();
        }
    }.before);
    return indexes;
}

fn sleeps(ctx: *Ctx, all: []const u64) ![]usize {
    const futures = try ctx.arena.alloc(wf.Future(void), all.len);
    for (futures, all) |*future, ms| future.* = ctx.after(wf.ms(ms));
    for (futures) |future| try future.wait();
    return order(ctx, futures);
}

fn twice(_: *Ctx, n: i64) !i64 {
    return 2 * n;
}

fn own(ctx: *Ctx) !void {
    return ctx.fail(.{
        .kind = "out-of-stock",
        .title = "Sold out",
        .status = 409,
        .detail = "sku a1",
        .class = .retryable,
        .retry_after = wf.ms(250),
        .data = "{\"sku\":\"a1\",\"left\":0}",
    });
}

fn crash(ctx: *Ctx) !void {
    try ctx.sleep(wf.ms(1));
    try fails(ctx);
}
fn fails(ctx: *Ctx) !void {
    return ctx.throw(@src(), "no good");
}

fn progress(ctx: *Ctx) ![]const u8 {
    ctx.expose("progress", .{ .done = 0 });
    _ = try ctx.signal(Ignored, "go", .{}).wait();
    ctx.expose("progress", .{ .done = 1 });
    _ = try ctx.signal(Ignored, "end", .{}).wait();
    return "ok";
}

fn logs(ctx: *Ctx) !void {
    for ([_]wf.Level{ .trace, .debug, .info, .warn, .@"error" }) |level| ctx.logWith(level, "a line", .{ .n = 1 });
}

fn random(ctx: *Ctx) !struct { length: usize, differ: bool } {
    const one = ctx.random(16);
    const other = ctx.random(16);
    const hex = [_][32]u8{ std.fmt.bytesToHex(one, .lower), std.fmt.bytesToHex(other, .lower) };
    _ = try ctx.call(Ignored, "note", [_][]const u8{ &hex[0], &hex[1] }, .{}).wait();
    return .{ .length = one.len, .differ = !std.mem.eql(u8, &one, &other) };
}

const Renewed = struct { left: u32, seen: []const u32 };
fn renew(ctx: *Ctx, in: Renewed) ![]const u32 {
    try ctx.sleep(wf.ms(1));
    if (in.left == 0) return in.seen;
    const seen = try std.mem.concat(ctx.arena, u32, &.{ in.seen, &.{in.left} });
    return ctx.renew("renew", Renewed{ .left = in.left - 1, .seen = seen });
}

fn never(ctx: *Ctx) !void {
    try ctx.never().wait();
}

fn nested(ctx: *Ctx, in: struct { depth: usize }) !Value {
    var list: Value = .{ .array = .init(ctx.arena) };
    for (1..in.depth) |_| {
        var outer: std.json.Array = .init(ctx.arena);
        try outer.append(list);
        list = .{ .array = outer };
    }
    return list;
}

fn reverse(ctx: *Ctx) !wf.Bytes {
    const bytes = try ctx.call(wf.Bytes, "bytes", null, .{}).wait();
    const turned = try ctx.arena.dupe(u8, bytes.data);
    std.mem.reverse(u8, turned);
    return ctx.spawn(wf.Bytes, "pass", wf.Bytes{ .data = turned }, .{}).wait();
}
fn pass(_: *Ctx, in: wf.Bytes) !wf.Bytes {
    return in;
}

// Calls

const Request = struct { handler: []const u8, args: Value = .null, timeout: ?u64 = null, key: ?[]const u8 = null };
fn begin(ctx: *Ctx, in: Request) wf.Future(Value) {
    return ctx.call(Value, in.handler, in.args, .{ .timeout = if (in.timeout) |n| wf.ms(n) else null, .key = in.key });
}
fn call(ctx: *Ctx, in: Request) !Value {
    return begin(ctx, in).wait();
}

const Caught = struct {
    kind: []const u8,
    title: []const u8,
    status: u16,
    detail: ?[]const u8,
    class: wf.contract.Class,
    retry: ?u64,
    data: ?Value,
};
fn caught(ctx: *Ctx, in: Request) !wf.Payload {
    const of = switch (try begin(ctx, in).outcome()) {
        .ok => |answer| return wf.encode(.{ .answer = answer }),
        .problem => |problem| problem,
    };
    return wf.encode(Caught{
        .kind = of.kind,
        .title = of.title,
        .status = of.status,
        .detail = of.detail,
        .class = of.class,
        .retry = if (of.retry_after) |micros| micros / 1000 else null,
        .data = if (of.data) |text| try wf.decode(Value, ctx.arena, .{ .json = text }) else null,
    });
}

fn beginAll(ctx: *Ctx, in: []const Request) ![]wf.Future(Value) {
    const calls = try ctx.arena.alloc(wf.Future(Value), in.len);
    for (calls, in) |*one, request| one.* = begin(ctx, request);
    return calls;
}
fn parallel(ctx: *Ctx, in: []const Request) !struct { outputs: []Value, finished: []usize } {
    const calls = try beginAll(ctx, in);
    return .{ .outputs = try ctx.all(Value, calls), .finished = try order(ctx, calls) };
}

fn settle(ctx: *Ctx, in: []const Request) ![]Value {
    const calls = try beginAll(ctx, in);
    const settled = try ctx.arena.alloc(Value, in.len);
    for (settled, calls) |*one, of| {
        var object: std.json.ObjectMap = .empty;
        switch (try of.outcome()) {
            .ok => |value| try object.put(ctx.arena, "value", value),
            .problem => |problem| try object.put(ctx.arena, "problem", .{ .string = problem.kind }),
        }
        one.* = .{ .object = object };
    }
    return settled;
}

fn delayed(ctx: *Ctx, i: u64) !u64 {
    return ctx.call(u64, "delay", .{ .ms = 20, .value = i }, .{}).wait();
}
fn limited(ctx: *Ctx, in: struct { limit: usize, items: u64 }) ![]u64 {
    const items = try ctx.arena.alloc(u64, @intCast(in.items));
    for (items, 0..) |*item, i| item.* = i;
    return ctx.map(u64, in.limit, items, delayed);
}

fn loop(ctx: *Ctx, in: struct { handler: []const u8, n: i64 }) !i64 {
    var sum: i64 = 0;
    var i: i64 = 1;
    while (i <= in.n) : (i += 1) {
        const answer = try ctx.call(Value, in.handler, .{ .value = i }, .{}).wait();
        sum += if (answer == .object) answer.object.get("value").?.integer else answer.integer;
    }
    return sum;
}

fn race(ctx: *Ctx, in: Ms) ![]const u8 {
    const winner = try ctx.race(.{ ctx.after(wf.ms(in.ms)), ctx.call(Ignored, "hang", "race", .{}) });
    _ = try ctx.signal(Ignored, "go", .{}).wait();
    return if (winner == 0) "sleep" else "call";
}
fn revoke(ctx: *Ctx) ![]const u8 {
    const hangs_on = ctx.call(Ignored, "hang", "revoke", .{});
    try ctx.sleep(wf.ms(20));
    hangs_on.cancel();
    _ = try ctx.signal(Ignored, "go", .{}).wait();
    return "revoked";
}
fn first(ctx: *Ctx, in: struct { names: [2][]const u8 }) !struct { name: []const u8, body: Value } {
    const both = [_]wf.Future(Value){ ctx.signal(Value, in.names[0], .{}), ctx.signal(Value, in.names[1], .{}) };
    const winner = try ctx.race(.{ both[0], both[1] });
    return .{ .name = in.names[winner], .body = try both[winner].wait() };
}
fn signal(ctx: *Ctx, in: struct { name: []const u8, timeout: ?u64 = null }) !Value {
    return ctx.signal(Value, in.name, .{ .timeout = if (in.timeout) |n| wf.ms(n) else null }).wait();
}

// Children

const Child = struct { entry: []const u8, input: Value = .null, component: ?[]const u8 = null };
const Kind = struct { problem: []const u8 };
fn child(ctx: *Ctx, in: Child) !Value {
    return ctx.spawn(Value, in.entry, in.input, .{ .component = in.component }).wait();
}
fn children(ctx: *Ctx, in: struct { n: usize }) ![]i64 {
    const all = try ctx.arena.alloc(wf.Future(i64), in.n);
    for (all, 1..) |*one, i| one.* = ctx.spawn(i64, "twice", i, .{});
    return ctx.all(i64, all);
}
fn fib(ctx: *Ctx, n: i64) !i64 {
    if (n < 2) return n;
    const both = try ctx.all(i64, &.{ ctx.spawn(i64, "fib", n - 1, .{}), ctx.spawn(i64, "fib", n - 2, .{}) });
    return both[0] + both[1];
}
fn stop(ctx: *Ctx, in: Child) !wf.Payload {
    try ctx.register("parent");
    const of = ctx.spawn(Value, in.entry, null, .{});
    _ = try ctx.receive(Ignored, .{ .topic = "ready", .from = of.sender() }).wait();
    ctx.stop(of.target());
    return switch (try of.outcome()) {
        .ok => |output| wf.encode(.{ .output = output }),
        .problem => |problem| wf.encode(Kind{ .problem = problem.kind }),
    };
}

/// Says that it is ready, calls a handler that never answers, and returns why it was cancelled.
fn hangs(ctx: *Ctx, name: []const u8) ![]const u8 {
    const cancelled = ctx.cancelled();
    _ = ctx.send(parent, "ready", null);
    _ = try ctx.race(.{ cancelled, ctx.call(Ignored, "hang", name, .{}) });
    return (try cancelled.wait()).reason;
}
fn cleanup(ctx: *Ctx) !void {
    const reason = try hangs(ctx, "cleanup");
    _ = try ctx.call(Ignored, "note", "cleanup", .{}).wait();
    return ctx.fail(.{ .kind = "cancelled", .title = "Cancelled", .detail = reason });
}
fn stubborn(ctx: *Ctx) ![]const u8 {
    _ = try hangs(ctx, "stubborn");
    return "completed anyway";
}
fn deaf(ctx: *Ctx) !void {
    _ = try hangs(ctx, "deaf");
    _ = try ctx.call(Ignored, "note", "deaf", .{}).wait();
    try ctx.sleep(wf.hours(1));
}
fn waits(ctx: *Ctx) !Value {
    return ctx.call(Value, "hang", "waits", .{}).wait();
}

const Detached = struct { detached: bool };
fn outlive(ctx: *Ctx, in: Detached) !Value {
    const output = try ctx.spawn(Value, "leaves", in, .{}).wait();
    _ = try ctx.signal(Ignored, "go", .{}).wait();
    return output;
}
fn leaves(ctx: *Ctx, in: Detached) ![]const u8 {
    _ = ctx.spawn(Ignored, "late", null, .{ .detached = in.detached });
    try ctx.sleep(wf.ms(50));
    return "left";
}
fn late(ctx: *Ctx) !void {
    _ = try ctx.call(Ignored, "delay", .{ .ms = 200, .value = null }, .{}).wait();
    _ = try ctx.call(Ignored, "note", "late", .{}).wait();
}
fn linked(ctx: *Ctx) !Value {
    _ = ctx.spawn(Ignored, "own", null, .{ .link = true });
    return ctx.call(Value, "hang", "linked", .{}).wait();
}
fn monitor(ctx: *Ctx, in: Child) !wf.Payload {
    const of = ctx.spawn(Ignored, in.entry, in.input, .{});
    return switch ((try ctx.monitor(of.target()).wait()).ending) {
        .failed => |problem| wf.encode(.{ .ending = "failed", .kind = problem.kind }),
        else => |ending| wf.encode(.{ .ending = @tagName(ending) }),
    };
}
fn deadline(ctx: *Ctx, in: Ms) ![]const u8 {
    const ended = try ctx.timeout(ctx.spawn(Ignored, "waits", null, .{}), wf.ms(in.ms)).outcome();
    _ = try ctx.signal(Ignored, "go", .{}).wait();
    return if (ended == .problem and std.mem.eql(u8, ended.problem.kind, "timeout")) "timed out" else "ended";
}

// Messages and names

fn names(ctx: *Ctx) !struct { taken: Value, hello: Value } {
    try ctx.register("parent");
    const taken = try ctx.spawn(Value, "namesake", null, .{}).wait();
    return .{ .taken = taken, .hello = (try ctx.receive(Value, .{ .topic = "hello" }).wait()).body };
}
fn namesake(ctx: *Ctx) !?[]const u8 {
    var refusal: ?[]const u8 = null;
    ctx.register("parent") catch |err| switch (err) {
        error.Suspended => return err,
        error.Problem => refusal = ctx.problem().kind,
    };
    _ = ctx.send(parent, "hello", 1);
    return refusal;
}
fn nowhere(ctx: *Ctx) !?[]const u8 {
    const sent = ctx.send(.{ .name = "nobody" }, "hello", null);
    try ctx.sleep(wf.ms(20));
    return if (sent.refusal()) |problem| problem.kind else null;
}
fn inbox(ctx: *Ctx) ![6]u32 {
    try ctx.register("parent");
    _ = try ctx.spawn(Ignored, "talker", null, .{}).wait();
    var bodies: [6]u32 = undefined;
    for (&bodies, 0..) |*body, i| body.* = (try ctx.receive(u32, .{ .topic = if (i < 2) "b" else null }).wait()).body;
    return bodies;
}
fn talker(ctx: *Ctx) !void {
    for ([_][]const u8{ "a", "b", "a", "b", "c", "c" }, 1..) |topic, body| _ = ctx.send(parent, topic, body);
}
fn from(ctx: *Ctx) ![2][]const u8 {
    try ctx.register("parent");
    const x = ctx.spawn(Ignored, "speaker", "x", .{});
    const y = ctx.spawn(Ignored, "speaker", "y", .{});
    const second = try ctx.receive([]const u8, .{ .from = y.sender() }).wait();
    const one = try ctx.receive([]const u8, .{ .from = x.sender() }).wait();
    return .{ second.body, one.body };
}
fn speaker(ctx: *Ctx, text: []const u8) !void {
    _ = ctx.send(parent, "said", text);
}
fn patience(ctx: *Ctx, in: Ms) !struct { got: ?Value } {
    return switch (try ctx.timeout(ctx.receive(Value, .{ .topic = "none" }), wf.ms(in.ms)).outcome()) {
        .ok => |message| .{ .got = message.body },
        .problem => .{ .got = null },
    };
}
const Rounds = struct { rounds: u32 };
fn pingpong(ctx: *Ctx, in: Rounds) !u32 {
    const of = ctx.spawn(Ignored, "ponger", in, .{});
    var number: u32 = 0;
    for (0..in.rounds) |_| {
        _ = ctx.send(of.target(), "ping", number);
        number = (try ctx.receive(u32, .{ .topic = "pong" }).wait()).body;
    }
    return number;
}
fn ponger(ctx: *Ctx, in: Rounds) !void {
    for (0..in.rounds) |_| {
        const ping = try ctx.receive(u32, .{ .topic = "ping" }).wait();
        if (ping.sender.target()) |to| _ = ctx.send(to, "pong", ping.body + 1);
    }
}
fn mailbox(ctx: *Ctx) !struct { from: []const u8, body: Value } {
    try ctx.register("mailbox");
    const message = try ctx.receive(Value, .{ .topic = "wfhost.signal" }).wait();
    return .{ .from = message.sender.outside, .body = message.body };
}

pub const entries = .{
    .echo = echo,
    .clock = clock,
    .sleeps = sleeps,
    .twice = twice,
    .own = own,
    .crash = crash,
    .progress = progress,
    .logs = logs,
    .random = random,
    .renew = renew,
    .never = never,
    .nested = nested,
    .reverse = reverse,
    .pass = pass,
    .call = call,
    .caught = caught,
    .parallel = parallel,
    .settle = settle,
    .limited = limited,
    .loop = loop,
    .race = race,
    .revoke = revoke,
    .first = first,
    .signal = signal,
    .child = child,
    .children = children,
    .fib = fib,
    .stop = stop,
    .cleanup = cleanup,
    .stubborn = stubborn,
    .deaf = deaf,
    .waits = waits,
    .outlive = outlive,
    .leaves = leaves,
    .late = late,
    .linked = linked,
    .monitor = monitor,
    .deadline = deadline,
    .names = names,
    .namesake = namesake,
    .nowhere = nowhere,
    .inbox = inbox,
    .talker = talker,
    .from = from,
    .speaker = speaker,
    .patience = patience,
    .pingpong = pingpong,
    .ponger = ponger,
    .mailbox = mailbox,
};

comptime {
    wf.exports(entries, "The conformance suite.");
}
