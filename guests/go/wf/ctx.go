package wf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ctx is an entry's access to its host. It is a context.Context too: for libraries that ask whether
// it is cancelled. It is not for `<-ctx.Done()`, which nothing could wake: wait for Cancelled.
type Ctx struct {
	process *process
	scope   *scope
}

// Those of package time, for guests that need nothing else of it.
const (
	Millisecond = time.Millisecond
	Second      = time.Second
	Minute      = time.Minute
	Hour        = time.Hour
)

const microsMax = 1<<53 - 1

// micros rounds up, so that a wait is never shorter than requested.
func micros(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return min((uint64(d)+999)/1000, microsMax)
}

// Option changes a call, a child or what is received.
type Option func(*options)

type options struct {
	timeout         time.Duration
	key             string
	component, name string
	link, detached  bool
	narrow          any
	topic           *string
	from            *Sender
}

func optionsOf(all []Option) options {
	var made options
	for _, option := range all {
		option(&made)
	}
	return made
}

// Timeout limits how long a call, or receiving, may take.
func Timeout(limit time.Duration) Option { return func(o *options) { o.timeout = limit } }

// Key sets the idempotency key of a call: calls with the same key have one effect in all.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Component spawns another component: a name under the workflow's `components:`.
func Component(name string) Option { return func(o *options) { o.component = name } }

// Name registers a child under a name in the run.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Linked links a child: an ending other than Completed of one cancels the other.
func Linked() Option { return func(o *options) { o.link = true } }

// Detached lets a child outlive its parent.
func Detached() Option { return func(o *options) { o.detached = true } }

// Narrow gives a child only a part of this process's limits and grants: an object.
func Narrow(to any) Option { return func(o *options) { o.narrow = to } }

// Topic receives only messages of this topic.
func Topic(topic string) Option { return func(o *options) { o.topic = &topic } }

// From receives only messages of this sender.
func From(sender Sender) Option { return func(o *options) { o.from = &sender } }

// Call calls a handler of the host: `http`, `kv`, or an embedder's.
func Call[T any](ctx Ctx, handler string, args any, with ...Option) *Future[T] {
	payload, err := Encode(args)
	if err != nil {
		return refused[T](ctx, err)
	}
	o := optionsOf(with)
	command := Command{Kind: ActionCall, Name: handler, Payload: payload, Timeout: micros(o.timeout), Key: o.key}
	return &Future[T]{ctx.process.ask(ctx.scope, command), decoded[T]}
}

// Signal waits for a signal with this name, sent to the run from outside. Earlier signals count, the
// oldest first; each is received once. A timeout of 0 is none.
func Signal[T any](ctx Ctx, name string, timeout time.Duration) *Future[T] {
	return Call[T](ctx, "signal", map[string]string{"name": name}, Timeout(timeout))
}

// Child is a child process, and its output.
type Child[T any] struct {
	Future[T]
	ctx    Ctx
	exited *slot
}

// Spawn starts an entry of this component, or of another one, as a child process.
func Spawn[T any](ctx Ctx, entry string, input any, with ...Option) *Child[T] {
	payload, err := Encode(input)
	if err != nil {
		return &Child[T]{Future: *refused[T](ctx, err), ctx: ctx}
	}
	o := optionsOf(with)
	command := Command{Kind: ActionSpawn, Name: entry, Payload: payload, Component: o.component, Alias: o.name, Link: o.link, Detached: o.detached}
	if o.narrow != nil {
		narrow, err := json.Marshal(o.narrow)
		if err != nil {
			return &Child[T]{Future: *refused[T](ctx, err), ctx: ctx}
		}
		command.Narrow = string(narrow)
	}
	child := &Child[T]{Future[T]{ctx.process.ask(ctx.scope, command), decoded[T]}, ctx, nil}
	child.slot.keep = o.detached
	if o.link && !child.slot.settled {
		child.exited = ctx.exit(child.slot.tag)
	}
	return child
}

// Target is the child's address.
func (c *Child[T]) Target() Target { return Target{Kind: TargetChild, ID: c.slot.tag} }

// Sender is the sender of its messages.
func (c *Child[T]) Sender() Sender { return Sender{Kind: SenderChild, ID: c.slot.tag} }

// Send sends it a message.
func (c *Child[T]) Send(topic string, body any) (*Sent, error) {
	return Send(c.ctx, c.Target(), topic, body)
}

// Stop asks it to end; its answer still arrives.
func (c *Child[T]) Stop() { c.ctx.Stop(c.Target()) }

// Exited is the end of a Linked child; nil if it is not.
func (c *Child[T]) Exited() *Future[Exit] {
	if c.exited == nil {
		return nil
	}
	return &Future[Exit]{c.exited, exitOf}
}

// Sent is a message on its way.
type Sent struct{ slot *slot }

// Refusal is why it was not delivered, once that is known: not before the next event.
func (s *Sent) Refusal() *Problem { return s.slot.problem }

// Send sends a message. The error: the body has no JSON form.
func Send(ctx Ctx, to Target, topic string, body any) (*Sent, error) {
	payload, err := Encode(body)
	if err != nil {
		return nil, err
	}
	sent := ctx.process.ask(ctx.scope, Command{Kind: ActionSend, Target: to, Name: topic, Payload: payload})
	sent.keep = true
	return &Sent{sent}, nil
}

// Message is a message and its body.
type Message[T any] struct {
	Sender Sender
	Topic  string
	Body   T
}

// Receive receives a message: of any topic and sender, or as Topic and From say.
func Receive[T any](ctx Ctx, with ...Option) *Future[Message[T]] {
	o := optionsOf(with)
	p := ctx.process
	receiver := p.slot(ctx.scope)
	receiver.topic, receiver.from = o.topic, o.from
	future := &Future[Message[T]]{receiver, func(s *slot) (Message[T], error) {
		body, err := Decode[T](s.event.Payload)
		return Message[T]{s.event.Sender, s.event.Topic, body}, err
	}}
	if receiver.settled {
		return future
	}
	for i := range p.mailbox {
		if receiver.takes(&p.mailbox[i]) {
			receiver.event = p.mailbox[i]
			p.mailbox = slices.Delete(p.mailbox, i, i+1)
			receiver.settle(nil)
			return future
		}
	}
	p.receivers = append(p.receivers, receiver)
	if o.timeout > 0 {
		receiver.timer = ctx.After(o.timeout).slot
		receiver.timer.after = func() { receiver.settle(late()) }
	}
	return future
}

func late() *Problem { return &Problem{Kind: "timeout", Title: "The time is over", Class: Retryable} }

// Sleep waits for this long. The error: a cancel.
func (c Ctx) Sleep(d time.Duration) error {
	_, err := c.After(d).Wait()
	return err
}

// After is known when this time has passed.
func (c Ctx) After(d time.Duration) *Future[struct{}] {
	return &Future[struct{}]{c.process.ask(c.scope, Command{Kind: ActionSleep, Number: micros(d)}), none}
}

func (c Ctx) exit(tag uint64) *slot {
	made := c.process.slot(c.scope)
	if !made.settled {
		made.tag = tag
		c.process.exits[tag] = made
	}
	return made
}

func exitOf(s *slot) (Exit, error) { return s.event.Exit, nil }

// Monitor is the end of another process.
func (c Ctx) Monitor(target Target) *Future[Exit] {
	return &Future[Exit]{c.exit(c.process.issue(Command{Kind: ActionMonitor, Target: target})), exitOf}
}

// Link is a Monitor that also cancels one if the other does not end Completed.
func (c Ctx) Link(target Target) *Future[Exit] {
	return &Future[Exit]{c.exit(c.process.issue(Command{Kind: ActionLink, Target: target})), exitOf}
}

// Unlink undoes a Link.
func (c Ctx) Unlink(target Target) { c.process.issue(Command{Kind: ActionUnlink, Target: target}) }

// Stop asks a process to end.
func (c Ctx) Stop(target Target) { c.process.issue(Command{Kind: ActionStop, Target: target}) }

// Register registers this process under a name in the run; `name-taken` if another has it.
func (c Ctx) Register(name string) error {
	_, err := (&Future[struct{}]{c.process.ask(c.scope, Command{Kind: ActionRegister, Name: name}), none}).Wait()
	return err
}

// Expose sets the value that queries of this name return from now on.
func (c Ctx) Expose(query string, value any) error {
	payload, err := Encode(value)
	if err == nil {
		c.process.issue(Command{Kind: ActionExpose, Name: query, Payload: payload})
	}
	return err
}

// Log writes a line to the run's log, with fields (an object, a struct or a map) if they are given.
func (c Ctx) Log(level Level, text string, fields ...any) {
	var object []byte
	if len(fields) > 0 {
		object, _ = json.Marshal(fields[0])
	}
	c.process.host.Log(level, text, object)
}

// Logf writes a formatted line.
func (c Ctx) Logf(level Level, format string, args ...any) {
	c.Log(level, fmt.Sprintf(format, args...))
}

// Now is the time of the batch: it stands still between two waits, and never goes back.
func (c Ctx) Now() time.Time { return time.UnixMicro(int64(c.process.host.Now())).UTC() }

// Random returns bytes of the process's seeded stream.
func (c Ctx) Random(n int) []byte {
	made := make([]byte, 0, n)
	for len(made) < n {
		made = append(made, c.process.host.Random(min(n-len(made), 4096))...)
	}
	return made
}

// Identity is the run's id, and this process's pid.
func (c Ctx) Identity() Identity { return c.process.host.Whoami() }

// Yield lets other processes run: the host steps this one again at once.
func (c Ctx) Yield() {
	c.process.yielded = append(c.process.yielded, c.process.current)
	c.process.park()
}

// Never is never known.
func (c Ctx) Never() *Future[struct{}] { return &Future[struct{}]{c.process.slot(c.scope), none} }

// Cancellation is why, and how long this process may go on.
type Cancellation struct {
	Reason string
	Grace  time.Duration
}

// Cancelled is known when the process is asked to end. It need not be waited for: a cancel also
// fails everything that waits in a Ctx, as `cancelled`. Use WithoutCancel for what remains to be done.
func (c Ctx) Cancelled() *Future[Cancellation] {
	p := c.process
	uncancelled := c.WithoutCancel()
	listener := p.slot(uncancelled.scope)
	if p.cancel != nil {
		listener.event = *p.cancel
		listener.settle(nil)
	} else {
		p.listeners = append(p.listeners, listener)
	}
	return &Future[Cancellation]{listener, func(s *slot) (Cancellation, error) {
		return Cancellation{s.event.Reason, time.Duration(s.event.Grace) * time.Microsecond}, nil
	}}
}

// WithCancel is a Ctx that can be cancelled for itself.
func (c Ctx) WithCancel() (Ctx, func()) {
	inner := Ctx{c.process, newScope(c.process, c.scope)}
	return inner, func() { inner.scope.cancel(cancelled("")) }
}

// WithTimeout is a Ctx whose waits fail as `timeout` when the time is over. Call the function when it
// is not needed any more.
func (c Ctx) WithTimeout(limit time.Duration) (Ctx, func()) {
	inner, cancel := c.WithCancel()
	inner.scope.deadline = c.process.host.Now() + micros(limit)
	timer := c.After(limit)
	timer.slot.after = func() {
		if timer.slot.problem == nil {
			inner.scope.cancel(late())
		}
	}
	return inner, func() {
		cancel()
		timer.Cancel()
	}
}

// WithoutCancel is a Ctx that a cancel does not reach: for what an ending guest still has to do
// within its grace period.
func (c Ctx) WithoutCancel() Ctx {
	free := newScope(c.process, nil)
	c.process.uncancelled = append(c.process.uncancelled, free)
	return Ctx{c.process, free}
}

// Err is the problem with which the Ctx was cancelled.
func (c Ctx) Err() error {
	if c.scope.problem == nil {
		return nil
	}
	return c.scope.problem
}

// Deadline is that of the innermost WithTimeout.
func (c Ctx) Deadline() (time.Time, bool) {
	return time.UnixMicro(int64(c.scope.deadline)).UTC(), c.scope.deadline > 0
}

// Done is closed when the Ctx is cancelled. Only look at it (`select` with `default`): see Ctx.
func (c Ctx) Done() <-chan struct{} { return c.scope.done }

// Value is always nil.
func (c Ctx) Value(any) any { return nil }

type renewal struct {
	entry string
	input Payload
}

func (*renewal) Error() string { return "wf: the process goes on as a fresh instance" }

// Renew, as the error that an entry returns, continues as a fresh instance with an empty history.
func Renew(entry string, input any) error {
	payload, err := Encode(input)
	if err != nil {
		return err
	}
	return &renewal{entry, payload}
}

func fromMicros(n uint64) time.Duration { return time.Duration(min(n, microsMax)) * time.Microsecond }

// valid is text as UTF-8, which the contract demands.
func valid(text string) []byte { return []byte(strings.ToValidUTF8(text, "\uFFFD")) }
