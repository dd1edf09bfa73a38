// Package wftest runs guests natively, on a host for tests: its clock jumps to what happens next, its
// handlers are functions, and children, messages, names, links and cancels work as on a host.
//
//	func TestOrder(t *testing.T) {
//		main() // exports the entries
//		host := wftest.New(t)
//		host.Handle("price", func(args json.RawMessage) (any, error) { return 20, nil })
//		host.Signal("approve", map[string]string{"by": "Ann"})
//		out, err := wftest.Run[Out](host, "run", Order{IDs: []int{1, 2}})
//	}
package wftest

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
)

// Handler answers a call: with a value, an error (a *wf.Problem passes unchanged), After or Never.
type Handler func(args json.RawMessage) (any, error)

type later struct {
	after time.Duration
	value any
}

// After is an answer that comes later.
func After(d time.Duration, value any) any { return later{d, value} }

// Never is an answer that does not come.
var Never any = later{after: -1}

// Line is one that a guest has logged.
type Line struct {
	Level  wf.Level
	Text   string
	Fields string
}

// Call is one that a guest has made.
type Call struct{ Handler, Args, Key string }

// Host is a host for tests, for one run.
type Host struct {
	Lines   []Line
	Calls   []Call
	Exposed map[string]string
	// Abandoned counts the calls that were cancelled.
	Abandoned int
	// Reason and Grace are those of the cancels that it sends itself.
	Grace time.Duration

	t         testing.TB
	handlers  map[string]Handler
	signals   []signal
	processes []*process
	names     map[string]*process
	watches   []watch
	timers    []*timer
	now       time.Time
	cancelAt  *time.Duration
	reason    string
	random    *rand.ChaCha8
}

type signal struct {
	name string
	body wf.Payload
}

type watch struct {
	by, of *process
	tag    uint64
	link   bool
}

type timer struct {
	at     time.Time
	never  bool
	of     *process
	tag    uint64
	event  wf.Event
	call   bool
	signal string
	do     func()
}

type process struct {
	host                     *Host
	running                  *wf.Running
	pid, tag, nextTag        uint64
	parent                   *process
	detached, stopped, ended bool
	status                   wf.Status
	queue                    []wf.Event
}

// New makes a host, at 2026-01-01T00:00:00Z. wf.Export must have been called.
func New(t testing.TB) *Host {
	host := &Host{
		t: t, Exposed: map[string]string{}, Grace: 10 * time.Second, handlers: map[string]Handler{}, names: map[string]*process{},
		now: start, random: rand.NewChaCha8([32]byte{1}),
	}
	t.Cleanup(func() {
		for _, one := range host.processes {
			if one.running != nil && !one.ended {
				one.running.Close()
			}
		}
	})
	return host
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Handle answers the calls of a handler.
func (h *Host) Handle(name string, handler Handler) { h.handlers[name] = handler }

// Signal sends a signal; it is kept until it is waited for.
func (h *Host) Signal(name string, body any) {
	h.signals = append(h.signals, signal{name, must(h.t, body)})
}

// CancelAfter cancels the run when this time has passed.
func (h *Host) CancelAfter(d time.Duration, reason string) { h.cancelAt, h.reason = &d, reason }

// Elapsed is the time that has passed for the guest.
func (h *Host) Elapsed() time.Duration { return h.now.Sub(start) }

func must(t testing.TB, value any) wf.Payload {
	payload, err := wf.Encode(value)
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
	return payload
}

// Run runs an entry to its end. The error is the *wf.Problem that it failed with; one of the kind
// `blocked-on-nothing` if nothing could happen any more.
func Run[T any](h *Host, entry string, input any) (T, error) {
	h.t.Helper()
	var none T
	root := h.start(nil, 0, entry, must(h.t, input))
	if h.cancelAt != nil {
		h.timers = append(h.timers, &timer{at: h.now.Add(*h.cancelAt), do: func() { h.cancel(root, h.reason) }})
	}
	for busy := true; busy && !root.ended; {
		busy = false
		for i := 0; i < len(h.processes); i++ {
			busy = h.step(h.processes[i]) || busy
		}
		busy = busy || h.signalled() || h.advance()
	}
	switch {
	case !root.ended:
		return none, &wf.Problem{Kind: "blocked-on-nothing", Title: "Nothing can happen any more"}
	case root.status.Kind == wf.StatusFailed:
		return none, root.status.Problem
	}
	return wf.Decode[T](root.status.Payload)
}

func (p *process) Log(level wf.Level, text string, fields []byte) {
	p.host.Lines = append(p.host.Lines, Line{level, text, string(fields)})
}
func (p *process) Whoami() wf.Identity {
	return wf.Identity{Run: "test", PID: p.pid, NextTag: p.nextTag}
}
func (p *process) Now() uint64 { return uint64(p.host.now.UnixMicro()) }
func (p *process) Random(n int) []byte {
	bytes := make([]byte, n)
	p.host.random.Read(bytes)
	return bytes
}

func (h *Host) start(parent *process, tag uint64, entry string, input wf.Payload) *process {
	made := &process{host: h, pid: uint64(len(h.processes) + 1), tag: tag, nextTag: 1, parent: parent}
	h.processes = append(h.processes, made)
	made.begin(entry, input)
	return made
}

func (p *process) begin(entry string, input wf.Payload) {
	running, problem := wf.Start(p, entry, input)
	p.running, p.status = running, wf.Status{Kind: wf.StatusReady}
	if problem != nil {
		p.status = wf.Status{Kind: wf.StatusFailed, Problem: problem}
	}
}

func (p *process) post(event wf.Event) {
	if p != nil && !p.ended {
		p.queue = append(p.queue, event)
	}
}

func (p *process) answer(tag uint64, payload wf.Payload) {
	p.post(wf.Event{Kind: wf.EventCompleted, Tag: tag, Payload: payload})
}

func (p *process) refuse(tag uint64, kind string) {
	p.post(wf.Event{Kind: wf.EventCompleted, Tag: tag, Problem: wf.NewProblem(kind, kind)})
}

// step steps a process that has something to do, and returns whether it had.
func (h *Host) step(p *process) bool {
	if p.ended || p.status.Kind != wf.StatusReady && p.status.Kind < wf.StatusComplete && len(p.queue) == 0 {
		return false
	}
	if p.status.Kind >= wf.StatusComplete {
		h.ended(p)
		return true
	}
	events := p.queue
	p.queue = nil
	var commands []wf.Command
	p.status, commands = p.running.Step(events)
	for _, command := range commands {
		p.nextTag = command.Tag + 1
		h.do(p, command)
	}
	switch p.status.Kind {
	case wf.StatusRenew:
		p.running.Close()
		p.begin(p.status.Entry, p.status.Payload)
	case wf.StatusComplete, wf.StatusFailed:
		h.ended(p)
	}
	return true
}

func (h *Host) do(p *process, of wf.Command) {
	switch of.Kind {
	case wf.ActionSleep:
		h.timers = append(h.timers, &timer{at: h.after(of.Number), of: p, tag: of.Tag, event: answered(of.Tag, wf.JSON("null"))})
	case wf.ActionCall:
		h.call(p, of)
	case wf.ActionSpawn:
		child := h.start(p, of.Tag, of.Name, of.Payload)
		child.detached = of.Detached
		if of.Alias != "" {
			h.names[of.Alias] = child
		}
		if of.Link {
			h.watches = append(h.watches, watch{p, child, of.Tag, true})
		}
	case wf.ActionSend:
		to := h.resolve(p, of.Target)
		if to == nil || to.ended {
			p.refuse(of.Tag, "no-process")
			return
		}
		sender := wf.Sender{Kind: wf.SenderProcess, ID: p.pid}
		if p.parent == to {
			sender = wf.Sender{Kind: wf.SenderChild, ID: p.tag}
		}
		to.post(wf.Event{Kind: wf.EventMessage, Sender: sender, Topic: of.Name, Payload: of.Payload})
	case wf.ActionCancel:
		h.giveUp(p, of.Number)
	case wf.ActionStop:
		h.cancel(h.resolve(p, of.Target), "stopped")
	case wf.ActionMonitor, wf.ActionLink:
		if to := h.resolve(p, of.Target); to != nil {
			h.watches = append(h.watches, watch{p, to, of.Tag, of.Kind == wf.ActionLink})
		}
	case wf.ActionRegister:
		if h.names[of.Name] != nil {
			p.refuse(of.Tag, "name-taken")
			return
		}
		h.names[of.Name] = p
		p.answer(of.Tag, wf.JSON("null"))
	case wf.ActionExpose:
		h.Exposed[of.Name] = string(of.Payload.Data)
	}
}

func (h *Host) after(micros uint64) time.Time {
	return h.now.Add(time.Duration(micros) * time.Microsecond)
}

func answered(tag uint64, payload wf.Payload) wf.Event {
	return wf.Event{Kind: wf.EventCompleted, Tag: tag, Payload: payload}
}

func (h *Host) resolve(p *process, target wf.Target) *process {
	switch target.Kind {
	case wf.TargetName:
		return h.names[target.Name]
	case wf.TargetProcess, wf.TargetChild:
		for _, one := range h.processes {
			if target.Kind == wf.TargetProcess && one.pid == target.ID || target.Kind == wf.TargetChild && one.parent == p && one.tag == target.ID {
				return one
			}
		}
	}
	return nil
}

func (h *Host) call(p *process, of wf.Command) {
	h.Calls = append(h.Calls, Call{of.Name, string(of.Payload.Data), of.Key})
	made := &timer{at: h.now, of: p, tag: of.Tag, call: true}
	if of.Timeout > 0 {
		late := wf.Event{Kind: wf.EventCompleted, Tag: of.Tag, Problem: &wf.Problem{Kind: "timed-out", Title: "The call took too long"}}
		h.timers = append(h.timers, &timer{at: h.after(of.Timeout), of: p, tag: of.Tag, event: late})
	}
	if of.Name == "signal" {
		var args struct{ Name string }
		json.Unmarshal(of.Payload.Data, &args)
		made.never, made.call, made.signal = true, false, args.Name
		h.timers = append(h.timers, made)
		return
	}
	handler := h.handlers[of.Name]
	if handler == nil {
		p.refuse(of.Tag, "unknown-handler")
		return
	}
	value, err := handler(of.Payload.Data)
	if slow, ok := value.(later); ok && err == nil {
		made.never, made.at, value = slow.after < 0, h.now.Add(slow.after), slow.value
	}
	made.event = answered(of.Tag, wf.JSON("null"))
	if err != nil {
		var problem *wf.Problem
		if !errors.As(err, &problem) {
			problem = wf.NewProblem("failed", err.Error())
		}
		made.event = wf.Event{Kind: wf.EventCompleted, Tag: of.Tag, Problem: problem}
	} else if !made.never {
		made.event = answered(of.Tag, must(h.t, value))
	}
	h.timers = append(h.timers, made)
}

// drop removes the timers of a tag, and returns whether there were any.
func (h *Host) drop(p *process, tag uint64, abandoned bool) bool {
	left := h.timers[:0]
	found := false
	for _, one := range h.timers {
		if one.of != p || one.tag != tag || one.do != nil {
			left = append(left, one)
			continue
		}
		found = true
		if abandoned && one.call {
			h.Abandoned++
		}
	}
	h.timers = left
	return found
}

func (h *Host) giveUp(p *process, tag uint64) {
	for _, one := range h.processes {
		if one.parent == p && one.tag == tag {
			h.cancel(one, "given up")
		}
	}
	if h.drop(p, tag, true) {
		p.refuse(tag, "cancelled")
	}
}

func (h *Host) cancel(p *process, reason string) {
	if p == nil || p.ended || p.stopped {
		return
	}
	p.stopped = true
	p.post(wf.Event{Kind: wf.EventCancel, Reason: reason, Grace: uint64(h.Grace.Microseconds())})
	h.timers = append(h.timers, &timer{at: h.now.Add(h.Grace), do: func() {
		if !p.ended {
			p.status = wf.Status{Kind: wf.StatusFailed, Problem: wf.NewProblem("cancelled", "The grace period is over")}
		}
	}})
}

func (h *Host) ended(p *process) {
	p.ended = true
	if p.running != nil {
		p.running.Close()
	}
	left := h.timers[:0]
	for _, one := range h.timers {
		if one.of != p {
			left = append(left, one)
		}
	}
	h.timers = left
	problem := p.status.Problem
	exit := wf.Exit{PID: p.pid, Problem: problem}
	if problem != nil {
		exit.Ending = wf.Failed
		if problem.Kind == "cancelled" {
			exit = wf.Exit{PID: p.pid, Ending: wf.Cancelled, Reason: problem.Detail}
		}
	}
	p.parent.post(wf.Event{Kind: wf.EventCompleted, Tag: p.tag, Payload: p.status.Payload, Problem: problem})
	for _, one := range h.watches {
		if one.of == p {
			one.by.post(wf.Event{Kind: wf.EventExited, Tag: one.tag, Exit: exit})
		}
		if one.link && problem != nil && one.of == p {
			h.cancel(one.by, "a linked process has ended")
		} else if one.link && problem != nil && one.by == p {
			h.cancel(one.of, "a linked process has ended")
		}
	}
	for _, one := range h.processes {
		if one.parent == p && !one.detached {
			h.cancel(one, "its parent has ended")
		}
	}
}

func (h *Host) signalled() bool {
	for _, waiting := range h.timers {
		for i, one := range h.signals {
			if waiting.signal != "" && waiting.signal == one.name {
				h.signals = append(h.signals[:i:i], h.signals[i+1:]...)
				h.drop(waiting.of, waiting.tag, false)
				waiting.of.answer(waiting.tag, one.body)
				return true
			}
		}
	}
	return false
}

// advance lets the time pass until something happens, and returns whether anything does.
func (h *Host) advance() bool {
	var next *timer
	for _, one := range h.timers {
		if !one.never && (next == nil || one.at.Before(next.at)) {
			next = one
		}
	}
	if next == nil {
		return false
	}
	if next.at.After(h.now) {
		h.now = next.at
	}
	if next.do != nil {
		left := h.timers[:0]
		for _, one := range h.timers {
			if one != next {
				left = append(left, one)
			}
		}
		h.timers = left
		next.do()
		return true
	}
	h.drop(next.of, next.tag, false)
	next.of.post(next.event)
	return true
}
