//! The types of wit/process.wit, as guests see them. component.zig has their binary form.

const wf = @import("wfhost.zig");

/// The largest number of microseconds that the contract carries.
pub const micros_max: u64 = (1 << 53) - 1;

pub const Blob = struct { digest: []const u8, size: u64, media_type: []const u8 };
pub const Payload = union(enum) { json: []const u8, bytes: []const u8, blob: Blob };
pub const Class = enum(u8) { definite, retryable, uncertain };

/// RFC 9457, as far as it concerns a guest.
pub const Problem = struct {
    /// A short name or a URI.
    kind: []const u8,
    title: []const u8,
    /// The HTTP status where there is one, else 0.
    status: u16 = 0,
    detail: ?[]const u8 = null,
    class: Class = .definite,
    /// Microseconds.
    retry_after: ?u64 = null,
    /// A JSON object.
    data: ?[]const u8 = null,
};

pub const Sender = union(enum) {
    child: u64,
    process: u64,
    call: u64,
    outside: []const u8,

    /// Its address, for an answer; null if it has none.
    pub fn target(self: Sender) ?Target {
        return switch (self) {
            .child => |tag| .{ .child = tag },
            .process => |pid| .{ .process = pid },
            .call, .outside => null,
        };
    }
};
pub const Target = union(enum) { process: u64, child: u64, name: []const u8, run: struct { run: []const u8, name: []const u8 } };
pub const Ending = union(enum) { completed, failed: Problem, cancelled: []const u8 };
pub const Exit = struct { pid: u64, ending: Ending };
pub const Cancellation = struct { reason: []const u8, grace: u64 };

pub const Event = union(enum) {
    completed: struct { tag: u64, answer: union(enum) { ok: Payload, problem: Problem } },
    message: struct { sender: Sender, topic: []const u8, body: Payload },
    exited: struct { by: u64, exit: Exit },
    cancel: Cancellation,
};

pub const Action = union(enum) {
    sleep: u64,
    spawn: struct { entry: []const u8, input: Payload, with: wf.Spawn },
    call: struct { handler: []const u8, args: Payload, timeout: ?u64, key: ?[]const u8 },
    send: struct { to: Target, topic: []const u8, body: Payload },
    cancel: u64,
    stop: Target,
    monitor: Target,
    link: Target,
    unlink: Target,
    register: []const u8,
    expose: struct { query: []const u8, value: Payload },
};
pub const Command = struct { tag: u64, action: Action };
pub const Renewal = struct { entry: []const u8, input: Payload };
pub const Status = union(enum) { ready, blocked, idle, complete: Payload, failed: Problem, renew: Renewal };
pub const Level = enum(u8) { trace, debug, info, warn, @"error" };
pub const Identity = struct { run: []const u8, pid: u64, next_tag: u64 };
