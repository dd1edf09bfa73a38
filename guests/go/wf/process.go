package wf

import (
	"fmt"
	"runtime"
	"slices"
	"sort"
	"strings"
)

// A guest's goroutines run one at a time. A step hands the turn to each task that can go on, in the
// order in which they became able to, and a task hands it back when it waits: all by channels. So a
// guest is deterministic, whatever Go's scheduler does.
type process struct {
	host     Host
	turn     chan struct{} // handed back by the task that had it
	ready    []*task
	current  *task
	tasks    map[*task]struct{}
	nextTag  uint64
	commands []Command
	answers  map[uint64]*slot
	exits    map[uint64]*slot
	// Waiting receivers, in order of their beginning; messages nobody has taken.
	receivers []*slot
	mailbox   []Event
	root      *scope
	// Scopes that a cancel does not reach.
	uncancelled []*scope
	cancel      *Event
	listeners   []*slot
	yielded     []*task
	ended       *Status
	closed      bool
}

// task is a goroutine of the guest.
type task struct {
	resume chan struct{}
	queued bool
}

// slot is what will be known: the answer to a command, a message, an exit, the end of a task.
type slot struct {
	process *process
	scope   *scope
	tag     uint64
	// keep: giving it up cancels nothing.
	keep    bool
	settled bool
	payload Payload
	value   any
	problem *Problem
	event   Event
	topic   *string
	from    *Sender
	waiting []*task
	cancel  func()
	timer   *slot
	order   int
	after   func()
}

// scope is what a Ctx covers: it is cancelled as a whole.
type scope struct {
	process  *process
	parent   *scope
	scopes   []*scope
	slots    map[*slot]struct{}
	problem  *Problem
	done     chan struct{}
	deadline uint64
}

func newScope(process *process, parent *scope) *scope {
	made := &scope{process: process, parent: parent, slots: map[*slot]struct{}{}, done: make(chan struct{})}
	if parent != nil {
		made.deadline = parent.deadline
		if parent.problem != nil {
			made.cancel(parent.problem)
		} else {
			parent.scopes = append(parent.scopes, made)
		}
	}
	return made
}

// cancel gives up everything that the scope waits for: it fails with the problem.
func (s *scope) cancel(problem *Problem) {
	if s.problem != nil {
		return
	}
	s.problem = problem
	close(s.done)
	if s.parent != nil {
		s.parent.scopes = slices.DeleteFunc(s.parent.scopes, func(other *scope) bool { return other == s })
	}
	slots := make([]*slot, 0, len(s.slots))
	for slot := range s.slots {
		slots = append(slots, slot)
	}
	sort.Slice(slots, func(i, j int) bool { return slots[i].order < slots[j].order })
	for _, slot := range slots {
		slot.giveUp(problem)
	}
	for _, inner := range slices.Clone(s.scopes) {
		inner.cancel(problem)
	}
}

func newProcess(host Host) *process {
	p := &process{
		host: host, turn: make(chan struct{}), tasks: map[*task]struct{}{}, nextTag: host.Whoami().NextTag,
		answers: map[uint64]*slot{}, exits: map[uint64]*slot{},
	}
	p.root = newScope(p, nil)
	return p
}

func (p *process) issue(command Command) uint64 {
	command.Tag = p.nextTag
	p.nextTag++
	p.commands = append(p.commands, command)
	return command.Tag
}

var orders int

func (p *process) slot(in *scope) *slot {
	orders++
	made := &slot{process: p, scope: in, order: orders}
	if in.problem != nil {
		made.settle(in.problem)
	} else {
		in.slots[made] = struct{}{}
	}
	return made
}

// ask issues a command whose answer is wanted. In a cancelled scope nothing is asked.
func (p *process) ask(in *scope, command Command) *slot {
	made := p.slot(in)
	if made.settled {
		return made
	}
	made.tag = p.issue(command)
	p.answers[made.tag] = made
	return made
}

func (s *slot) settle(problem *Problem) {
	if s.settled {
		return
	}
	s.settled, s.problem = true, problem
	p := s.process
	delete(s.scope.slots, s)
	if p.answers[s.tag] == s {
		delete(p.answers, s.tag)
	}
	if p.exits[s.tag] == s {
		delete(p.exits, s.tag)
	}
	p.receivers = slices.DeleteFunc(p.receivers, func(other *slot) bool { return other == s })
	p.listeners = slices.DeleteFunc(p.listeners, func(other *slot) bool { return other == s })
	for _, waiting := range s.waiting {
		p.wake(waiting)
	}
	s.waiting = nil
	if s.timer != nil {
		s.timer.giveUp(cancelled(""))
	}
	if s.after != nil {
		s.after()
	}
}

// giveUp settles it with a problem, and cancels what it asked for.
func (s *slot) giveUp(problem *Problem) {
	if s.settled {
		return
	}
	if s.process.answers[s.tag] == s && !s.keep {
		s.process.issue(Command{Kind: ActionCancel, Number: s.tag})
	}
	cancel := s.cancel
	s.settle(problem)
	if cancel != nil {
		cancel()
	}
}

func cancelled(reason string) *Problem {
	return &Problem{Kind: "cancelled", Title: "Cancelled", Detail: reason}
}

func (p *process) wake(t *task) {
	if !t.queued {
		t.queued = true
		p.ready = append(p.ready, t)
	}
}

// start makes a goroutine of the guest. It runs when its turn comes.
func (p *process) start(run func()) {
	t := &task{resume: make(chan struct{})}
	p.tasks[t] = struct{}{}
	p.wake(t)
	go func() {
		<-t.resume
		defer func() {
			delete(p.tasks, t)
			p.turn <- struct{}{}
		}()
		if !p.closed {
			run()
		}
	}()
}

// park hands the turn back until the task is woken.
func (p *process) park() {
	t := p.current
	p.turn <- struct{}{}
	<-t.resume
	if p.closed {
		runtime.Goexit()
	}
}

// hand gives the turn to a task, and takes it back.
func (p *process) hand(t *task) {
	t.queued = false
	p.current = t
	t.resume <- struct{}{}
	<-p.turn
	p.current = nil
}

func (s *slot) wait() {
	p := s.process
	for !s.settled {
		if p.current == nil {
			panic("wf: waited outside of an entry, or in a goroutine that wf.Go did not start")
		}
		s.waiting = append(s.waiting, p.current)
		p.park()
	}
}

func (p *process) run(entry entry, input Payload) *Problem {
	run, problem := entry.prepare(Ctx{p, p.root}, input)
	if problem != nil {
		return problem
	}
	p.start(func() {
		status := Status{Kind: StatusFailed, Problem: NewProblem("exception", "The entry ended its goroutine")}
		defer func() {
			if value := recover(); value != nil {
				status = Status{Kind: StatusFailed, Problem: exception(value)}
			}
			if p.ended == nil && !p.closed {
				p.ended = &status
			}
		}()
		output, err := run()
		switch of := err.(type) {
		case nil:
			status = Status{Kind: StatusComplete, Payload: output}
		case *renewal:
			status = Status{Kind: StatusRenew, Entry: of.entry, Payload: of.input}
		default:
			status = Status{Kind: StatusFailed, Problem: problemOf(err)}
		}
	})
	return nil
}

// step delivers events, lets tasks run as far as they go, and returns what the process waits for.
func (p *process) step(events []Event) (Status, []Command) {
	for _, t := range p.yielded {
		p.wake(t)
	}
	p.yielded = nil
	for i := range events {
		p.deliver(&events[i])
	}
	for p.ended == nil && len(p.ready) > 0 {
		next := p.ready[0]
		p.ready = p.ready[1:]
		p.hand(next)
	}
	status := p.status()
	if p.ended != nil {
		status = *p.ended
		for _, scope := range append(p.uncancelled, p.root) {
			scope.cancel(cancelled("The process has ended"))
		}
	}
	commands := p.commands
	p.commands = nil
	return status, commands
}

func (p *process) status() Status {
	switch {
	case len(p.yielded) > 0:
		return Status{Kind: StatusReady}
	case len(p.receivers) > 0, len(p.listeners) > 0 && len(p.answers) == 0 && len(p.exits) == 0:
		return Status{Kind: StatusIdle}
	}
	return Status{Kind: StatusBlocked}
}

func (p *process) deliver(event *Event) {
	switch event.Kind {
	case EventCompleted:
		of := p.answers[event.Tag]
		if of == nil {
			if event.Problem != nil && event.Problem.Kind != "cancelled" {
				p.host.Log(Warn, fmt.Sprintf("command %d failed unheard: %s", event.Tag, event.Problem.Kind), nil)
			}
			return
		}
		of.payload = event.Payload
		of.settle(event.Problem)
	case EventMessage:
		for _, receiver := range p.receivers {
			if receiver.takes(event) {
				receiver.event = *event
				receiver.settle(nil)
				return
			}
		}
		p.mailbox = append(p.mailbox, *event)
	case EventExited:
		if of := p.exits[event.Tag]; of != nil {
			of.event = *event
			of.settle(nil)
		}
	case EventCancel:
		p.cancel = event
		for _, listener := range slices.Clone(p.listeners) {
			listener.event = *event
			listener.settle(nil)
		}
		p.root.cancel(cancelled(event.Reason))
	}
}

// takes says whether a receiver wants a message. The host may add topics of its own at any time:
// they reach only those that ask for them.
func (s *slot) takes(message *Event) bool {
	if s.topic != nil && *s.topic != message.Topic || s.topic == nil && strings.HasPrefix(message.Topic, "wfhost.") {
		return false
	}
	return s.from == nil || *s.from == message.Sender
}

// close ends the goroutines that still wait. Deferred functions run; what they ask for fails.
func (p *process) close() {
	p.closed = true
	for len(p.tasks) > 0 {
		for t := range p.tasks {
			p.hand(t)
		}
	}
}
