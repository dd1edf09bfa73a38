//! Runs the step natively: `make test`.

const std = @import("std");
const wf = @import("wfhost");
const step = @import("step.zig");

test "it greets after a moment" {
    var host: wf.testing.Host = .init(wf.table(.{ .run = step.run }));
    defer host.deinit();
    try std.testing.expectEqualStrings("{\"greeting\":\"Hello, Ann!\"}", try host.run("run", "{\"name\":\"Ann\"}"));
}
