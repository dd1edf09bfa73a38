package wf

import "encoding/json"

// The types of wit/process.wit, as the process and its host exchange them. Guests need few of them.

// Form is the form of a payload.
type Form uint8

const (
	FormJSON Form = iota
	FormBytes
	FormBlob
)

// Payload is a value on its way. As an input, an output, or the type of an answer it passes unchanged.
type Payload struct {
	Form Form
	// Data is the JSON text or the bytes.
	Data []byte
	Blob Blob
}

// Blob is content too large to carry, valid only in the run that was given it.
type Blob struct {
	Digest    string
	Size      uint64
	MediaType string
}

// Bytes are bytes that are not JSON.
type Bytes []byte

// SenderKind says who sent a message.
type SenderKind uint8

const (
	SenderChild SenderKind = iota
	SenderProcess
	SenderCall
	SenderOutside
)

// Sender is who sent a message: a child or a call by its tag, a process by its pid, or the outside
// by a name.
type Sender struct {
	Kind SenderKind
	ID   uint64
	Name string
}

// Target is the address of the sender, for an answer. False: it has none.
func (s Sender) Target() (Target, bool) {
	switch s.Kind {
	case SenderChild:
		return Target{Kind: TargetChild, ID: s.ID}, true
	case SenderProcess:
		return Process(s.ID), true
	}
	return Target{}, false
}

// TargetKind says what a target is.
type TargetKind uint8

const (
	TargetProcess TargetKind = iota
	TargetChild
	TargetName
	TargetRun
)

// Target is an address: see Process, Named, InRun and Child.Target.
type Target struct {
	Kind      TargetKind
	ID        uint64
	Run, Name string
}

// Process is the process of that pid.
func Process(pid uint64) Target { return Target{Kind: TargetProcess, ID: pid} }

// Named is the process registered under a name in this run.
func Named(name string) Target { return Target{Kind: TargetName, Name: name} }

// InRun is the process registered under a name in another run.
func InRun(run, name string) Target { return Target{Kind: TargetRun, Run: run, Name: name} }

// Ending says how a process ended.
type Ending uint8

const (
	Completed Ending = iota
	Failed
	Cancelled
)

// Exit is the end of a linked or monitored process.
type Exit struct {
	PID    uint64
	Ending Ending
	// Problem is why it failed; nil unless it did.
	Problem *Problem
	// Reason is why it was cancelled.
	Reason string
}

// EventKind says what an event is.
type EventKind uint8

const (
	EventCompleted EventKind = iota
	EventMessage
	EventExited
	EventCancel
)

// Event is what a process receives.
type Event struct {
	Kind EventKind
	// Tag is that of the command that is answered, or that reported the exit.
	Tag uint64
	// Payload is the answer, or the body of the message.
	Payload Payload
	// Problem is set in place of an answer.
	Problem *Problem
	Sender  Sender
	Topic   string
	Exit    Exit
	// Reason and Grace (microseconds) are those of a cancel.
	Reason string
	Grace  uint64
}

// ActionKind says what a command asks for.
type ActionKind uint8

const (
	ActionSleep ActionKind = iota
	ActionSpawn
	ActionCall
	ActionSend
	ActionCancel
	ActionStop
	ActionMonitor
	ActionLink
	ActionUnlink
	ActionRegister
	ActionExpose
)

// Command is what a process asks for.
type Command struct {
	Tag  uint64
	Kind ActionKind
	// Number is the time of a sleep in microseconds, or the tag of a cancel.
	Number uint64
	// Name is a handler, an entry, a topic, a name or a query.
	Name string
	// Payload is the arguments, the input, the body or the value.
	Payload Payload
	Target  Target
	// Timeout in microseconds; 0 is none.
	Timeout          uint64
	Key              string
	Component, Alias string
	Link, Detached   bool
	Narrow           string
}

// StatusKind says what a process waits for, or how it ended.
type StatusKind uint8

const (
	StatusReady StatusKind = iota
	StatusBlocked
	StatusIdle
	StatusComplete
	StatusFailed
	StatusRenew
)

// Status is what a step returns beside its commands.
type Status struct {
	Kind    StatusKind
	Payload Payload
	Problem *Problem
	Entry   string
}

// Level is that of a log line.
type Level uint8

const (
	Trace Level = iota
	Debug
	Info
	Warn
	Error
)

// Identity is the run's id, the process's pid, and the first tag that it has not used.
type Identity struct {
	Run          string
	PID, NextTag uint64
}

// Host is what a process may ask at any time; nothing waits. Tests bring their own: package wftest.
type Host interface {
	Log(level Level, text string, fields []byte)
	Whoami() Identity
	// Now is the time of the batch, in microseconds since 1970.
	Now() uint64
	// Random returns at most 4,096 bytes.
	Random(n int) []byte
}

var null = Payload{Data: []byte("null")}

// JSON is a payload of JSON text.
func JSON(text string) Payload { return Payload{Data: json.RawMessage(text)} }
