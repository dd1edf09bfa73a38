//go:build wasip1

package wf

import (
	"math"
	"unsafe"
)

// The component's exports and imports: the canonical ABI of wit/process.wit, by hand, so that a guest
// needs no generator. Offsets are those of a 32-bit memory; each variant begins with its tag.

//go:wasmimport wfhost:process/host@0.1.0 log
func importLog(level uint32, text, textLen, some, fields, fieldsLen uint32)

//go:wasmimport wfhost:process/host@0.1.0 whoami
func importWhoami(into uint32)

//go:wasmimport wfhost:process/host@0.1.0 now
func importNow() uint64

//go:wasmimport wfhost:process/host@0.1.0 random
func importRandom(n, into uint32)

// In c-shared mode the runtime does not call main. The first export that is called does.
//
//go:linkname mainMain main.main
func mainMain()

var (
	running *Running
	// received keeps alive what the host has written, until the call ends that it is for.
	received [][]uint64
	// returned keeps alive what the last call has returned.
	returned [][]uint64
	begun    bool
)

func begin() {
	if !begun {
		begun = true
		mainMain()
	}
}

// Whoever makes the component may call this once, and keep the memory: processes begin after main.
//
//go:wasmexport preinit
func preinit() { begin() }

func address[T any](of *T) uint32 { return uint32(uintptr(unsafe.Pointer(of))) }

func pointer(at uint32) unsafe.Pointer { return unsafe.Pointer(uintptr(at)) }

// words are zeroed, aligned as anything needs, and kept alive.
func words(size uint32, keep *[][]uint64) uint32 {
	if size == 0 {
		return 8
	}
	made := make([]uint64, (size+7)/8)
	*keep = append(*keep, made)
	return address(&made[0])
}

//go:wasmexport cabi_realloc
func cabiRealloc(old, oldSize, align, size uint32) uint32 {
	made := words(size, &received)
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(pointer(made)), size), unsafe.Slice((*byte)(pointer(old)), oldSize))
	}
	return made
}

// memory is a place in memory to read from, or to write to.
type memory uint32

func (m memory) u8(at uint32) uint8   { return *(*uint8)(pointer(uint32(m) + at)) }
func (m memory) u16(at uint32) uint16 { return *(*uint16)(pointer(uint32(m) + at)) }
func (m memory) u32(at uint32) uint32 { return *(*uint32)(pointer(uint32(m) + at)) }
func (m memory) u64(at uint32) uint64 { return *(*uint64)(pointer(uint32(m) + at)) }

func (m memory) bytes(at uint32) []byte {
	made := make([]byte, m.u32(at+4))
	copy(made, unsafe.Slice((*byte)(pointer(m.u32(at))), len(made)))
	return made
}

func (m memory) text(at uint32) string { return string(m.bytes(at)) }

func (m memory) payload(at uint32) Payload {
	made := Payload{Form: Form(m.u8(at))}
	if made.Form == FormBlob {
		made.Blob = Blob{m.text(at + 8), m.u64(at + 16), m.text(at + 24)}
	} else {
		made.Data = m.bytes(at + 8)
	}
	return made
}

func (m memory) problem(at uint32) *Problem {
	made := &Problem{Kind: m.text(at), Title: m.text(at + 8), Status: int(m.u16(at + 16)), Class: Class(m.u8(at + 32))}
	if made.detailed = m.u8(at+20) != 0; made.detailed {
		made.Detail = m.text(at + 24)
	}
	if made.retries = m.u8(at+40) != 0; made.retries {
		made.RetryAfter = fromMicros(m.u64(at + 48))
	}
	if m.u8(at+56) != 0 {
		made.Data = m.bytes(at + 60)
	}
	return made
}

func (m memory) event(at uint32) Event {
	made := Event{Kind: EventKind(m.u8(at))}
	at += 8
	switch made.Kind {
	case EventCompleted:
		made.Tag = m.u64(at)
		if m.u8(at+8) == 0 {
			made.Payload = m.payload(at + 16)
		} else {
			made.Problem = m.problem(at + 16)
		}
	case EventMessage:
		made.Sender.Kind = SenderKind(m.u8(at))
		if made.Sender.Kind == SenderOutside {
			made.Sender.Name = m.text(at + 8)
		} else {
			made.Sender.ID = m.u64(at + 8)
		}
		made.Topic, made.Payload = m.text(at+16), m.payload(at+24)
	case EventExited:
		made.Exit.PID, made.Tag = m.u64(at), m.u64(at+8)
		made.Exit.Ending = Ending(m.u8(at + 16))
		switch made.Exit.Ending {
		case Failed:
			made.Exit.Problem = m.problem(at + 24)
		case Cancelled:
			made.Exit.Reason = m.text(at + 24)
		}
	case EventCancel:
		made.Reason, made.Grace = m.text(at), m.u64(at+8)
	}
	return made
}

func (m memory) putU8(at uint32, value uint8)   { *(*uint8)(pointer(uint32(m) + at)) = value }
func (m memory) putU16(at uint32, value uint16) { *(*uint16)(pointer(uint32(m) + at)) = value }
func (m memory) putU32(at uint32, value uint32) { *(*uint32)(pointer(uint32(m) + at)) = value }
func (m memory) putU64(at uint32, value uint64) { *(*uint64)(pointer(uint32(m) + at)) = value }

func (m memory) putBool(at uint32, value bool) {
	if value {
		m.putU8(at, 1)
	}
}

func (m memory) putBytes(at uint32, value []byte) {
	to := words(uint32(len(value)), &returned)
	copy(unsafe.Slice((*byte)(pointer(to)), len(value)), value)
	m.putU32(at, to)
	m.putU32(at+4, uint32(len(value)))
}

func (m memory) putText(at uint32, value string) { m.putBytes(at, valid(value)) }

func (m memory) putOptional(at uint32, some bool, value string) {
	m.putBool(at, some)
	if some {
		m.putText(at+4, value)
	}
}

func (m memory) putPayload(at uint32, value Payload) {
	m.putU8(at, uint8(value.Form))
	if value.Form != FormBlob {
		m.putBytes(at+8, value.Data)
		return
	}
	m.putText(at+8, value.Blob.Digest)
	m.putU64(at+16, value.Blob.Size)
	m.putText(at+24, value.Blob.MediaType)
}

func (m memory) putProblem(at uint32, value *Problem) {
	m.putText(at, value.Kind)
	m.putText(at+8, value.Title)
	m.putU16(at+16, uint16(max(0, min(value.Status, math.MaxUint16))))
	m.putOptional(at+20, value.detailed || value.Detail != "", value.Detail)
	m.putU8(at+32, uint8(value.Class))
	if value.retries || value.RetryAfter > 0 {
		m.putU8(at+40, 1)
		m.putU64(at+48, micros(value.RetryAfter))
	}
	m.putOptional(at+56, len(value.Data) > 0, string(value.Data))
}

func (m memory) putTarget(at uint32, value Target) {
	m.putU8(at, uint8(value.Kind))
	switch value.Kind {
	case TargetName:
		m.putText(at+8, value.Name)
	case TargetRun:
		m.putText(at+8, value.Run)
		m.putText(at+16, value.Name)
	default:
		m.putU64(at+8, value.ID)
	}
}

func (m memory) putCommand(at uint32, of Command) {
	m.putU64(at, of.Tag)
	m.putU8(at+8, uint8(of.Kind))
	at += 16
	switch of.Kind {
	case ActionSleep, ActionCancel:
		m.putU64(at, of.Number)
	case ActionSpawn:
		m.putOptional(at, of.Component != "", of.Component)
		m.putText(at+12, of.Name)
		m.putPayload(at+24, of.Payload)
		m.putOptional(at+56, of.Alias != "", of.Alias)
		m.putBool(at+68, of.Link)
		m.putBool(at+69, of.Detached)
		m.putOptional(at+72, of.Narrow != "", of.Narrow)
	case ActionCall:
		m.putText(at, of.Name)
		m.putPayload(at+8, of.Payload)
		m.putBool(at+40, of.Timeout > 0)
		m.putU64(at+48, of.Timeout)
		m.putOptional(at+56, of.Key != "", of.Key)
	case ActionSend:
		m.putTarget(at, of.Target)
		m.putText(at+24, of.Name)
		m.putPayload(at+32, of.Payload)
	case ActionRegister:
		m.putText(at, of.Name)
	case ActionExpose:
		m.putText(at, of.Name)
		m.putPayload(at+8, of.Payload)
	default:
		m.putTarget(at, of.Target)
	}
}

const commandSize, eventSize = 104, 104

//go:wasmexport wfhost:process/guest@0.1.0#init
func exportInit(entry, entryLen, form, a, b uint32, size uint64, c, d uint32) uint32 {
	begin()
	input := Payload{Form: Form(form)}
	slice := func(at, n uint32) []byte { return append([]byte{}, unsafe.Slice((*byte)(pointer(at)), n)...) }
	if input.Form == FormBlob {
		input.Blob = Blob{string(slice(a, b)), size, string(slice(c, d))}
	} else {
		input.Data = slice(a, b)
	}
	name := string(slice(entry, entryLen))
	returned, received = nil, nil
	result := memory(words(80, &returned))
	var problem *Problem
	if running, problem = Start(imports{}, name, input); problem != nil {
		result.putU8(0, 1)
		result.putProblem(8, problem)
	}
	return uint32(result)
}

//go:wasmexport wfhost:process/guest@0.1.0#step
func exportStep(at, n uint32) uint32 {
	events := make([]Event, n)
	for i := range events {
		events[i] = memory(at).event(uint32(i) * eventSize)
	}
	received, returned = received[:0], nil
	status, commands := running.Step(events)
	result := memory(words(88, &returned))
	result.putU8(0, uint8(status.Kind))
	switch status.Kind {
	case StatusComplete:
		result.putPayload(8, status.Payload)
	case StatusFailed:
		result.putProblem(8, status.Problem)
	case StatusRenew:
		result.putText(8, status.Entry)
		result.putPayload(16, status.Payload)
	}
	list := memory(words(uint32(len(commands))*commandSize, &returned))
	for i, command := range commands {
		list.putCommand(uint32(i)*commandSize, command)
	}
	result.putU32(80, uint32(list))
	result.putU32(84, uint32(len(commands)))
	return uint32(result)
}

//go:wasmexport wfhost:process/guest@0.1.0#close
func exportClose() {}

//go:wasmexport wfhost:process/describe@0.1.0#describe
func exportDescribe() uint32 {
	begin()
	returned = nil
	result := memory(words(8, &returned))
	result.putText(0, Describe())
	return uint32(result)
}

type imports struct{}

func (imports) Log(level Level, text string, fields []byte) {
	line := valid(text)
	if len(line) == 0 {
		line = []byte{' '}
	}
	if len(fields) == 0 {
		importLog(uint32(level), address(&line[0]), uint32(len(line)), 0, 0, 0)
	} else {
		importLog(uint32(level), address(&line[0]), uint32(len(line)), 1, address(&fields[0]), uint32(len(fields)))
	}
}

func (imports) Whoami() Identity {
	var into [3]uint64
	importWhoami(address(&into[0]))
	made := memory(address(&into[0]))
	return Identity{made.text(0), into[1], into[2]}
}

func (imports) Now() uint64 { return importNow() }

func (imports) Random(n int) []byte {
	var into [1]uint64
	importRandom(uint32(n), address(&into[0]))
	return memory(address(&into[0])).bytes(0)
}
