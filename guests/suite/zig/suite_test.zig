//! The suite's entries on the host for tests.

const std = @import("std");
const wf = @import("wfhost");
const suite = @import("suite.zig");
const Host = wf.testing.Host;
const Answer = wf.testing.Answer;

fn echo(_: *Host, args: []const u8) Answer {
    return .{ .json = args };
}
fn hang(_: *Host, _: []const u8) Answer {
    return .never;
}
fn note(_: *Host, _: []const u8) Answer {
    return .{ .json = "null" };
}
fn fail(_: *Host, _: []const u8) Answer {
    return .{ .problem = .{ .kind = "too-busy", .title = "Too busy" } };
}
fn bytes(_: *Host, _: []const u8) Answer {
    return .{ .bytes = &.{ 1, 2, 3 } };
}
fn delay(host: *Host, args: []const u8) Answer {
    const Of = struct { ms: u64, value: std.json.Value };
    const of = std.json.parseFromSliceLeaky(Of, host.arena.allocator(), args, .{}) catch unreachable;
    const text = std.json.Stringify.valueAlloc(host.arena.allocator(), of.value, .{}) catch unreachable;
    return .{ .after = .{ .micros = wf.ms(of.ms), .json = text } };
}

fn hostOf() Host {
    var host: Host = .init(wf.table(suite.entries));
    host.handle("echo", echo);
    host.handle("hang", hang);
    host.handle("note", note);
    host.handle("fail", fail);
    host.handle("bytes", bytes);
    host.handle("delay", delay);
    return host;
}

test "the output of each entry, or the kind of its problem" {
    const cases = [_][3][]const u8{
        .{ "echo", "{\"a\":[18446744073709551615,1.5,\"<é\\u0000>\",null]}", "{\"a\":[18446744073709551615,1.5,\"<é\\u0000>\",null]}" },
        .{ "call", "{\"handler\":\"echo\",\"args\":{\"a\":1}}", "{\"a\":1}" },
        .{ "call", "{\"handler\":\"fail\",\"args\":1}", "!too-busy" },
        .{ "call", "{\"handler\":\"none\",\"args\":1}", "!unknown-handler" },
        .{ "call", "{\"handler\":\"hang\",\"args\":1,\"timeout\":50}", "!timed-out" },
        .{ "parallel", "[{\"handler\":\"delay\",\"args\":{\"ms\":9,\"value\":1}},{\"handler\":\"delay\",\"args\":{\"ms\":1,\"value\":2}}]", "{\"outputs\":[1,2],\"finished\":[1,0]}" },
        .{ "parallel", "[{\"handler\":\"hang\",\"args\":1},{\"handler\":\"fail\",\"args\":2}]", "!too-busy" },
        .{ "settle", "[{\"handler\":\"echo\",\"args\":1},{\"handler\":\"fail\",\"args\":2}]", "[{\"value\":1},{\"problem\":\"too-busy\"}]" },
        .{ "limited", "{\"limit\":3,\"items\":10}", "[0,1,2,3,4,5,6,7,8,9]" },
        .{ "loop", "{\"handler\":\"echo\",\"n\":500}", "125250" },
        .{ "sleeps", "[160,10,80]", "[1,2,0]" },
        .{ "clock", "{\"ms\":30}", "{\"still\":true,\"waited\":true,\"recent\":true}" },
        .{ "fib", "8", "21" },
        .{ "child", "{\"entry\":\"twice\",\"input\":\"x\"}", "!bad-input" },
        .{ "child", "{\"entry\":\"own\"}", "!out-of-stock" },
        .{ "stop", "{\"entry\":\"cleanup\"}", "{\"problem\":\"cancelled\"}" },
        .{ "stop", "{\"entry\":\"stubborn\"}", "{\"output\":\"completed anyway\"}" },
        .{ "stop", "{\"entry\":\"deaf\"}", "{\"problem\":\"cancelled\"}" },
        .{ "monitor", "{\"entry\":\"own\"}", "{\"ending\":\"failed\",\"kind\":\"out-of-stock\"}" },
        .{ "linked", "null", "!cancelled" },
        .{ "inbox", "null", "[2,4,1,3,5,6]" },
        .{ "from", "null", "[\"y\",\"x\"]" },
        .{ "pingpong", "{\"rounds\":100}", "100" },
        .{ "patience", "{\"ms\":30}", "{\"got\":null}" },
        .{ "nowhere", "null", "\"no-process\"" },
        .{ "names", "null", "{\"taken\":\"name-taken\",\"hello\":1}" },
        .{ "renew", "{\"left\":3,\"seen\":[]}", "[3,2,1]" },
        .{ "crash", "null", "!exception" },
        .{ "never", "null", "!blocked-on-nothing" },
        .{ "none", "null", "!unknown-entry" },
    };
    for (cases) |case| {
        var host = hostOf();
        defer host.deinit();
        const found = host.run(case[0], case[1]) catch
            std.fmt.allocPrint(host.arena.allocator(), "!{s}", .{host.problem.?.kind}) catch unreachable;
        std.testing.expectEqualStrings(case[2], found) catch |err| {
            std.debug.print("{s} {s}: {any}\n", .{ case[0], case[1], host.problem });
            return err;
        };
    }
}

test "losers of a race and what exceeds its timeout are cancelled" {
    for ([_][2][]const u8{ .{ "race", "\"sleep\"" }, .{ "deadline", "\"timed out\"" } }) |case| {
        var host = hostOf();
        defer host.deinit();
        host.signal("go", "null");
        try std.testing.expectEqualStrings(case[1], try host.run(case[0], "{\"ms\":30}"));
        try std.testing.expectEqual(1, host.abandoned);
    }
}

test "at most three at a time" {
    var host = hostOf();
    defer host.deinit();
    _ = try host.run("limited", "{\"limit\":3,\"items\":10}");
    try std.testing.expectEqual(wf.ms(80), host.elapsed());
}

test "what was done is not done again" {
    var host = hostOf();
    defer host.deinit();
    host.signal("go", "1");
    host.signal("end", "1");
    _ = try host.run("progress", "null");
    try std.testing.expectEqual(2, host.calls.items.len);
    try std.testing.expectEqualStrings("{\"done\":1}", host.exposed.get("progress").?);
}

test "a cancel ends what does not listen for it" {
    var host = hostOf();
    defer host.deinit();
    host.cancelAfter(wf.seconds(1), "enough");
    try std.testing.expectError(error.Failed, host.run("waits", "null"));
    try std.testing.expectEqualStrings("enough", host.problem.?.detail.?);
}

test "an exception has its place" {
    var host = hostOf();
    defer host.deinit();
    try std.testing.expectError(error.Failed, host.run("crash", "null"));
    try std.testing.expectEqualStrings("no good", host.problem.?.title);
    try std.testing.expect(std.mem.startsWith(u8, host.problem.?.detail.?, "suite.zig:"));
}
