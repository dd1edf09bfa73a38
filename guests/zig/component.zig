//! The component's imports and exports: the canonical ABI of wit/process.wit. Offsets are those of a
//! 32-bit memory; each variant begins with its tag.

const std = @import("std");
const wf = @import("wfhost.zig");
const contract = @import("contract.zig");
const process = @import("process.zig");

comptime {
    asm (@import("component_type.zig").section);
}

const imports = struct {
    extern "wfhost:process/host@0.1.0" fn log(level: u32, text: [*]const u8, len: usize, some: u32, fields: [*]const u8, fields_len: usize) void;
    extern "wfhost:process/host@0.1.0" fn whoami(into: [*]u8) void;
    extern "wfhost:process/host@0.1.0" fn now() u64;
    extern "wfhost:process/host@0.1.0" fn random(len: u32, into: [*]u8) void;
};

fn log(level: contract.Level, text: []const u8, fields: ?[]const u8) void {
    const object = fields orelse "";
    const line = if (std.unicode.utf8ValidateSlice(text)) text else "a line that is not UTF-8";
    imports.log(@backingInt(level), line.ptr, line.len, @intFromBool(fields != null), object.ptr, object.len);
}
fn whoami() contract.Identity {
    var into: [24]u8 align(8) = undefined;
    imports.whoami(&into);
    const at: Memory = .{ .at = &into };
    return .{ .run = at.text(0), .pid = at.get(u64, 8), .next_tag = at.get(u64, 16) };
}
fn random(into: []u8) void {
    var list: [8]u8 align(8) = undefined;
    imports.random(@intCast(into.len), &list);
    @memcpy(into, (Memory{ .at = &list }).text(0)[0..into.len]);
}
fn now() u64 {
    return imports.now();
}

/// A place in memory, to read what the host has written, or to write for it.
const Memory = struct {
    at: [*]u8,

    fn get(m: Memory, comptime T: type, offset: usize) T {
        return std.mem.readInt(T, m.at[offset..][0..@sizeOf(T)], .little);
    }
    fn text(m: Memory, offset: usize) []const u8 {
        const len = m.get(u32, offset + 4);
        return if (len == 0) "" else @as([*]const u8, @ptrFromInt(m.get(u32, offset)))[0..len];
    }
    fn optional(m: Memory, offset: usize) ?[]const u8 {
        return if (m.at[offset] == 0) null else m.text(offset + 4);
    }
    fn payload(m: Memory, offset: usize) contract.Payload {
        return switch (m.at[offset]) {
            0 => .{ .json = m.text(offset + 8) },
            1 => .{ .bytes = m.text(offset + 8) },
            else => .{ .blob = .{ .digest = m.text(offset + 8), .size = m.get(u64, offset + 16), .media_type = m.text(offset + 24) } },
        };
    }
    fn problem(m: Memory, offset: usize) contract.Problem {
        return .{
            .kind = m.text(offset),
            .title = m.text(offset + 8),
            .status = m.get(u16, offset + 16),
            .detail = m.optional(offset + 20),
            .class = @fromBackingInt(@intCast(m.at[offset + 32])),
            .retry_after = if (m.at[offset + 40] == 0) null else m.get(u64, offset + 48),
            .data = m.optional(offset + 56),
        };
    }
    fn event(m: Memory) contract.Event {
        const at: Memory = .{ .at = m.at + 8 };
        return switch (m.at[0]) {
            0 => .{ .completed = .{
                .tag = at.get(u64, 0),
                .answer = if (at.at[8] == 0) .{ .ok = at.payload(16) } else .{ .problem = at.problem(16) },
            } },
            1 => .{ .message = .{
                .sender = switch (at.at[0]) {
                    0 => .{ .child = at.get(u64, 8) },
                    1 => .{ .process = at.get(u64, 8) },
                    2 => .{ .call = at.get(u64, 8) },
                    else => .{ .outside = at.text(8) },
                },
                .topic = at.text(16),
                .body = at.payload(24),
            } },
            2 => .{ .exited = .{ .by = at.get(u64, 8), .exit = .{ .pid = at.get(u64, 0), .ending = switch (at.at[16]) {
                0 => .completed,
                1 => .{ .failed = at.problem(24) },
                else => .{ .cancelled = at.text(24) },
            } } } },
            else => .{ .cancel = .{ .reason = at.text(0), .grace = at.get(u64, 8) } },
        };
    }

    fn put(m: Memory, comptime T: type, offset: usize, value: T) void {
        std.mem.writeInt(T, m.at[offset..][0..@sizeOf(T)], value, .little);
    }
    fn putBytes(m: Memory, offset: usize, value: []const u8) void {
        m.put(u32, offset, @intFromPtr(value.ptr));
        m.put(u32, offset + 4, value.len);
    }
    /// A text of the contract is UTF-8: bytes that are not become question marks.
    fn putText(m: Memory, offset: usize, value: []const u8) void {
        if (std.unicode.utf8ValidateSlice(value)) return m.putBytes(offset, value);
        const copy = process.out().dupe(u8, value) catch process.exhausted();
        for (copy) |*byte| if (byte.* >= 0x80) {
            byte.* = '?';
        };
        m.putBytes(offset, copy);
    }
    fn putOptional(m: Memory, offset: usize, value: ?[]const u8) void {
        const some = value orelse return;
        m.at[offset] = 1;
        m.putText(offset + 4, some);
    }
    fn putMicros(m: Memory, offset: usize, value: ?u64) void {
        const some = value orelse return;
        m.at[offset] = 1;
        m.put(u64, offset + 8, @min(some, contract.micros_max));
    }
    fn putPayload(m: Memory, offset: usize, value: contract.Payload) void {
        m.at[offset] = @backingInt(value);
        switch (value) {
            .json, .bytes => |data| m.putBytes(offset + 8, data),
            .blob => |blob| {
                m.putText(offset + 8, blob.digest);
                m.put(u64, offset + 16, blob.size);
                m.putText(offset + 24, blob.media_type);
            },
        }
    }
    fn putProblem(m: Memory, offset: usize, value: contract.Problem) void {
        m.putText(offset, value.kind);
        m.putText(offset + 8, value.title);
        m.put(u16, offset + 16, value.status);
        m.putOptional(offset + 20, value.detail);
        m.at[offset + 32] = @backingInt(value.class);
        m.putMicros(offset + 40, value.retry_after);
        m.putOptional(offset + 56, value.data);
    }
    fn putTarget(m: Memory, offset: usize, value: contract.Target) void {
        m.at[offset] = @backingInt(value);
        switch (value) {
            .process, .child => |id| m.put(u64, offset + 8, id),
            .name => |name| m.putText(offset + 8, name),
            .run => |run| {
                m.putText(offset + 8, run.run);
                m.putText(offset + 16, run.name);
            },
        }
    }
    fn putCommand(m: Memory, command: contract.Command) void {
        m.put(u64, 0, command.tag);
        m.at[8] = @backingInt(command.action);
        const at: Memory = .{ .at = m.at + 16 };
        switch (command.action) {
            .sleep, .cancel => |number| at.put(u64, 0, number),
            .spawn => |of| {
                at.putOptional(0, of.with.component);
                at.putText(12, of.entry);
                at.putPayload(24, of.input);
                at.putOptional(56, of.with.name);
                at.at[68] = @intFromBool(of.with.link);
                at.at[69] = @intFromBool(of.with.detached);
                at.putOptional(72, of.with.narrow);
            },
            .call => |of| {
                at.putText(0, of.handler);
                at.putPayload(8, of.args);
                at.putMicros(40, of.timeout);
                at.putOptional(56, of.key);
            },
            .send => |of| {
                at.putTarget(0, of.to);
                at.putText(24, of.topic);
                at.putPayload(32, of.body);
            },
            .stop, .monitor, .link, .unlink => |target| at.putTarget(0, target),
            .register => |name| at.putText(0, name),
            .expose => |of| {
                at.putText(0, of.query);
                at.putPayload(8, of.value);
            },
        }
    }
};

const command_size = 104;
const event_size = 104;

/// What the host has written; freed when it has been read.
var received: std.heap.ArenaAllocator = .init(process.gpa);

fn realloc(old: ?[*]u8, old_size: usize, alignment: usize, size: usize) callconv(.c) [*]u8 {
    if (size == 0) return @ptrFromInt(alignment);
    const made = received.allocator().alignedAlloc(u8, .@"8", size) catch process.exhausted();
    if (old) |from| @memcpy(made[0..@min(size, old_size)], from[0..@min(size, old_size)]);
    return made.ptr;
}

var returned: [88]u8 align(8) = undefined;

fn zeroed() Memory {
    @memset(&returned, 0);
    return .{ .at = &returned };
}

fn Component(comptime entries: []const process.Entry, comptime description: []const u8) type {
    return struct {
        fn begin() void {
            process.host = .{ .log = log, .whoami = whoami, .now = now, .random = random };
            process.current = process.create();
        }

        fn init(name: [*]const u8, name_len: usize, tag: u32, a: [*]const u8, b: usize, size: u64, c: [*]const u8, d: usize) callconv(.c) [*]u8 {
            begin();
            const input: contract.Payload = switch (tag) {
                0 => .{ .json = a[0..b] },
                1 => .{ .bytes = a[0..b] },
                else => .{ .blob = .{ .digest = a[0..b], .size = size, .media_type = c[0..d] } },
            };
            const result = zeroed();
            if (process.start(entries, name[0..name_len], input)) |problem| {
                result.at[0] = 1;
                result.putProblem(8, problem);
            }
            _ = received.reset(.retain_capacity);
            return result.at;
        }

        fn step(events: [*]u8, count: usize) callconv(.c) [*]u8 {
            const read = process.gpa.alloc(contract.Event, count) catch process.exhausted();
            defer process.gpa.free(read);
            for (read, 0..) |*event, i| event.* = (Memory{ .at = events + i * event_size }).event();
            const status = process.step(read);
            _ = received.reset(.retain_capacity);
            const result = zeroed();
            result.at[0] = @backingInt(status);
            switch (status) {
                .ready, .blocked, .idle => {},
                .complete => |output| result.putPayload(8, output),
                .failed => |problem| result.putProblem(8, problem),
                .renew => |renewal| {
                    result.putText(8, renewal.entry);
                    result.putPayload(16, renewal.input);
                },
            }
            const commands = process.current.commands.items;
            const list = process.out().alignedAlloc(u8, .@"8", commands.len * command_size + 8) catch process.exhausted();
            @memset(list, 0);
            for (commands, 0..) |command, i| (Memory{ .at = list.ptr + i * command_size }).putCommand(command);
            result.put(u32, 80, @intFromPtr(list.ptr));
            result.put(u32, 84, commands.len);
            return result.at;
        }

        fn close() callconv(.c) void {}

        fn describe() callconv(.c) [*]u8 {
            begin();
            const result = zeroed();
            var text: std.Io.Writer.Allocating = .init(process.out());
            var json: std.json.Stringify = .{ .writer = &text.writer };
            write(&json) catch process.exhausted();
            result.putBytes(0, text.written());
            return result.at;
        }

        fn write(json: *std.json.Stringify) !void {
            try json.beginObject();
            if (description.len > 0) {
                try json.objectField("description");
                try json.write(description);
            }
            try json.objectField("entries");
            try json.beginObject();
            for (entries) |entry| {
                try json.objectField(entry.name);
                try json.print("{{\"input\":{s}}}", .{entry.schema});
            }
            try json.endObject();
            try json.endObject();
        }
    };
}

pub fn exportAll(comptime entries: []const process.Entry, comptime description: []const u8) void {
    const Made = Component(entries, description);
    @export(&realloc, .{ .name = "cabi_realloc" });
    @export(&Made.init, .{ .name = "wfhost:process/guest@0.1.0#init" });
    @export(&Made.step, .{ .name = "wfhost:process/guest@0.1.0#step" });
    @export(&Made.close, .{ .name = "wfhost:process/guest@0.1.0#close" });
    @export(&Made.describe, .{ .name = "wfhost:process/describe@0.1.0#describe" });
}
