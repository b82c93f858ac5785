package offsetslog

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/seglog/seglog"
)

// Protocol is a way to assign that a member knows, and what it has to say about it. For
// consumers the name is that of an assignor and the metadata an encoded Subscription.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest is a wish to be a member of a group.
type JoinRequest struct {
	Group string
	// MemberID is "" for a new member.
	MemberID string
	// InstanceID makes a static member, who keeps its assignment when it comes back
	// within the session timeout (KIP-345).
	InstanceID string
	// ClientID and ClientHost are shown to operators.
	ClientID, ClientHost string
	// SessionTimeout is after how long without a heartbeat the member is gone. 0 means
	// 45 seconds.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the member may take to join again in a rebalance.
	// 0 means SessionTimeout.
	RebalanceTimeout time.Duration
	// ProtocolType is "consumer" if left empty.
	ProtocolType string
	// Protocols are those the member knows, the best first. There must be one that all
	// members know.
	Protocols []Protocol
}

// JoinResult is a member's place in a generation of its group.
type JoinResult struct {
	Member
	// Protocol is the one that was chosen.
	ProtocolType, Protocol string
	// Leader is the id of the member that assigns.
	Leader string
	// Members are all of the group if this is the leader.
	Members []JoinedMember
	// SkipAssignment: the leader is a static member that came back, and nothing is to
	// be assigned anew (KIP-814).
	SkipAssignment bool
}

// JoinedMember is a member that the leader assigns to.
type JoinedMember struct {
	ID, InstanceID string
	Metadata       []byte // for the protocol that was chosen
}

// IsLeader reports whether the member has to assign.
func (r JoinResult) IsLeader() bool { return r.ID == r.Leader }

// JoinGroup makes or keeps somebody a member of a group of the classic protocol. It
// waits for all others to join, or for the rebalance timeout, which excludes who has
// not. Then SyncGroup has to be called, by the leader with the assignments. If ctx ends
// a new member is forgotten.
//
// A member has to join again whenever Heartbeat, Commit or SyncGroup says
// ErrRebalancing or ErrIllegalGeneration, and as a new one after ErrUnknownMember. No
// one is asked to come back with the id it got, as a broker does (KIP-394): who waits
// here is known to be alive.
// (GroupMetadataManager.classicGroupJoin)
func (s *Store) JoinGroup(ctx context.Context, r JoinRequest) (JoinResult, error) {
	if r.Group == "" {
		return JoinResult{}, ErrInvalidGroupID
	}
	if err := r.complete(s.opts); err != nil {
		return JoinResult{}, err
	}
	p, err := s.group(ctx, Read, r.Group)
	if err != nil {
		return JoinResult{}, err
	}
	m, wait, err := p.join(&r)
	if err != nil {
		return JoinResult{}, err
	}
	select {
	case reply := <-wait:
		if r.InstanceID != "" && r.MemberID == "" && reply.err == nil {
			reply.err = p.settleAll(ctx) // its new id may have been written
		}
		return reply.result, reply.err
	case <-ctx.Done():
		if reply, ok := p.giveUp(r.Group, m, wait, r.MemberID == ""); ok {
			return reply.result, reply.err
		}
		return JoinResult{}, ctx.Err()
	}
}

// maxTimeout is the longest that can be stored: 32 bits of milliseconds.
const maxTimeout = math.MaxInt32 * time.Millisecond

// complete checks the request, and puts in what was left out.
func (r *JoinRequest) complete(opts Options) error {
	if r.SessionTimeout == 0 {
		r.SessionTimeout = 45 * time.Second
	}
	if r.SessionTimeout < opts.MinSessionTimeout || r.SessionTimeout > opts.MaxSessionTimeout {
		return fmt.Errorf("%w: %v", ErrInvalidSessionTimeout, r.SessionTimeout)
	}
	if r.RebalanceTimeout <= 0 {
		r.RebalanceTimeout = r.SessionTimeout
	}
	r.RebalanceTimeout = min(r.RebalanceTimeout, maxTimeout)
	if r.ProtocolType == "" {
		r.ProtocolType = ConsumerProtocol
	}
	long := max(len(r.MemberID), len(r.InstanceID)+40, len(r.ClientID)+40, len(r.ClientHost), len(r.ProtocolType))
	protocols := make([]Protocol, len(r.Protocols))
	for i, p := range r.Protocols {
		protocols[i] = Protocol{p.Name, bytes.Clone(p.Metadata)}
		long = max(long, len(p.Name))
	}
	if r.Protocols = protocols; long > maxString {
		return fmt.Errorf("%w: a string of %d bytes", ErrInvalidRequest, long)
	}
	return nil
}

// lock takes both locks, for what may write a record.
func (p *partition) lock() {
	p.order.Lock()
	p.mu.Lock()
}

func (p *partition) unlock() {
	p.mu.Unlock()
	p.order.Unlock()
}

// join lets somebody in, who then waits for the reply.
func (p *partition) join(r *JoinRequest) (*member, chan joinReply, error) {
	p.lock()
	defer p.unlock()
	if p.mu.closed {
		return nil, nil, ErrNotAvailable
	}
	g := p.mu.groups[r.Group]
	if r.MemberID != "" && (g == nil || g.classic == nil) {
		return nil, nil, ErrUnknownMember
	}
	if g == nil {
		g = p.mu.group([]byte(r.Group))
	}
	if g.classic == nil {
		g.classic = newClassic()
		defer func() {
			if len(g.classic.members) == 0 {
				g.classic = nil // refused
				p.mu.tidy(g)
			}
		}()
	}
	c := g.classic
	switch {
	case g.modern != nil, !c.supports(r.ProtocolType, r.Protocols):
		return nil, nil, ErrInconsistentProtocol
	case c.state == Dead:
		return nil, nil, ErrNotAvailable
	case !c.accepts(r.MemberID, p.store.opts.MaxGroupSize):
		if m := c.members[r.MemberID]; m != nil {
			c.remove(m, ErrGroupFull)
		}
		return nil, nil, ErrGroupFull
	case r.MemberID != "":
		return p.rejoin(g, r)
	}
	if old := c.members[c.static[r.InstanceID]]; r.InstanceID != "" && old != nil {
		return p.comeBack(g, old, r)
	}
	m := &member{id: newMemberID(r), instanceID: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost}
	if len(c.members) == 0 {
		c.protocolType = r.ProtocolType
	}
	if c.state == PreparingRebalance && c.before == Empty {
		c.newcomer = true
	}
	wait := m.update(r)
	c.add(m)
	p.beginSession(g, m)
	p.rebalance(g)
	return m, wait, nil
}

// newMemberID is ClassicGroup.generateMemberId.
func newMemberID(r *JoinRequest) string {
	if r.InstanceID != "" {
		return r.InstanceID + "-" + rand.Text()
	}
	return r.ClientID + "-" + rand.Text()
}

// update takes what a member says, who waits from now on.
func (m *member) update(r *JoinRequest) chan joinReply {
	m.reply(JoinResult{}, ErrRebalancing) // to an earlier call, which nobody waits for
	m.protocols, m.sessionTimeout, m.rebalanceTimeout = r.Protocols, r.SessionTimeout, r.RebalanceTimeout
	wait := make(chan joinReply, 1)
	m.join = wait
	return wait
}

// accepts is GroupMetadataManager.acceptJoiningMember.
func (c *classic) accepts(id string, most int) bool {
	m := c.members[id]
	switch c.state {
	case PreparingRebalance:
		return m != nil && m.join != nil || c.awaitingJoin() < most
	case CompletingRebalance, Stable:
		return m != nil || len(c.members) < most
	default:
		return true
	}
}

// rejoin is for who is a member already. In a generation that has begun, one who says
// nothing new is told where it is; the leader can have a new one.
func (p *partition) rejoin(g *group, r *JoinRequest) (*member, chan joinReply, error) {
	c := g.classic
	if err := c.check(&Member{ID: r.MemberID, InstanceID: r.InstanceID}); err != nil {
		return nil, nil, err
	}
	m := c.members[r.MemberID]
	same := m.matches(r.Protocols)
	switch {
	case c.state == CompletingRebalance && same, c.state == Stable && same && m.id != c.leader:
		wait := make(chan joinReply, 1)
		wait <- joinReply{result: c.joined(m)}
		return m, wait, nil
	default:
		wait := m.update(r)
		p.rebalance(g)
		return m, wait, nil
	}
}

// comeBack gives a static member that has lost its id a new one, and its place. The
// generation stays if nothing else changes.
// (GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin)
func (p *partition) comeBack(g *group, old *member, r *JoinRequest) (*member, chan joinReply, error) {
	c := g.classic
	leads := c.leader == old.id
	c.remove(old, ErrFencedInstance)
	m := &member{id: newMemberID(r), instanceID: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost, assignment: old.assignment}
	wait := m.update(r)
	c.add(m)
	if leads {
		c.leader = m.id
	}
	p.beginSession(g, m)
	switch {
	case c.state == Stable && orEmpty(c.protocol) == c.choose():
		c.learnSubscriptions()
		p.writeGroup(g, c.assignments())
		result := c.joined(m)
		result.SkipAssignment = leads
		m.reply(result, nil)
	case c.state == Stable, c.state == CompletingRebalance:
		p.prepareRebalance(g)
	default:
		p.maybeCompleteJoin(g)
	}
	return m, wait, nil
}

func (c *classic) assignments() map[string][]byte {
	all := make(map[string][]byte, len(c.members))
	for id, m := range c.members {
		all[id] = m.assignment
	}
	return all
}

// joined is what a member is told about the generation.
func (c *classic) joined(m *member) JoinResult {
	r := JoinResult{
		Member:       Member{ID: m.id, InstanceID: m.instanceID, Generation: c.generation},
		ProtocolType: c.protocolType, Protocol: orEmpty(c.protocol), Leader: c.leader,
	}
	if r.IsLeader() {
		for _, o := range c.sorted() {
			r.Members = append(r.Members, JoinedMember{o.id, o.instanceID, bytes.Clone(o.metadata(r.Protocol))})
		}
	}
	return r
}

// giveUp is for who does not wait for its reply any more, which may have come all the
// same.
func (p *partition) giveUp(id string, m *member, wait chan joinReply, isNew bool) (reply joinReply, ok bool) {
	p.lock()
	defer p.unlock()
	select {
	case reply = <-wait:
		return reply, true
	default:
	}
	g := p.mu.groups[id]
	if g == nil || g.classic == nil || g.classic.members[m.id] != m || m.join != wait {
		return reply, false
	}
	m.join = nil
	m.heard()
	if isNew && m.instanceID == "" {
		p.removeMember(g, m, ErrUnknownMember)
	}
	return reply, false
}

// rebalance is maybePrepareRebalanceOrCompleteJoin.
func (p *partition) rebalance(g *group) {
	if g.classic.state == PreparingRebalance {
		p.maybeCompleteJoin(g)
	} else {
		p.prepareRebalance(g)
	}
}

// prepareRebalance asks all members to join. An empty group gives others some time to
// come, too.
func (p *partition) prepareRebalance(g *group) {
	c := g.classic
	if c.state == CompletingRebalance {
		c.propagate(nil, ErrRebalancing)
	}
	clear(c.toSync)
	initial := c.state == Empty
	c.become(PreparingRebalance)
	delay := p.store.opts.InitialRebalanceDelay
	switch {
	case initial && delay > 0:
		p.delayInitial(g, delay, max(c.rebalanceTimeout()-delay, 0))
	case c.allJoined():
		p.completeJoin(g)
	default:
		p.schedule(g, c.rebalanceTimeout(), p.completeJoin)
	}
}

// delayInitial waits a while for more members, and once more after each, up to the
// rebalance timeout. (tryCompleteInitialRebalanceElseSchedule)
func (p *partition) delayInitial(g *group, delay, remaining time.Duration) {
	p.schedule(g, delay, func(g *group) {
		if !g.classic.newcomer || remaining == 0 {
			p.completeJoin(g)
			return
		}
		g.classic.newcomer = false
		p.delayInitial(g, min(p.store.opts.InitialRebalanceDelay, remaining), max(remaining-delay, 0))
	})
}

// schedule has do called, with both locks held, unless the phase of the group ends
// before.
func (p *partition) schedule(g *group, after time.Duration, do func(*group)) {
	c := g.classic
	c.endPhase()
	phase := c.phases
	c.phase = time.AfterFunc(after, func() {
		p.lock()
		defer p.unlock()
		if !p.mu.closed && g.classic == c && c.phases == phase {
			do(g)
		}
	})
}

func (c *classic) endPhase() {
	c.phases++
	if c.phase != nil {
		c.phase.Stop()
	}
}

func (p *partition) maybeCompleteJoin(g *group) {
	if c := g.classic; c.state == PreparingRebalance && c.allJoined() && (c.before != Empty || p.store.opts.InitialRebalanceDelay < 0) {
		p.completeJoin(g)
	}
}

// completeJoin begins a generation of those that have joined, and of static members,
// whom the session timeout alone removes.
func (p *partition) completeJoin(g *group) {
	c := g.classic
	c.endPhase()
	for _, m := range c.sorted() {
		if m.join == nil && m.instanceID == "" {
			c.remove(m, ErrUnknownMember)
		}
	}
	if len(c.members) > 0 && !c.electJoined() {
		p.schedule(g, c.rebalanceTimeout(), p.completeJoin)
		return
	}
	c.newcomer = false
	c.nextGeneration()
	if c.state == Empty {
		p.writeGroup(g, nil)
		return
	}
	for _, m := range c.members {
		m.reply(c.joined(m), nil)
		m.heard()
		c.toSync[m.id] = struct{}{}
	}
	p.schedule(g, c.rebalanceTimeout(), p.expireSync)
}

// electJoined finds a leader among those that have joined, if there are any.
func (c *classic) electJoined() bool {
	if m := c.members[c.leader]; m != nil && m.join != nil {
		return true
	}
	for _, m := range c.sorted() {
		if m.join != nil {
			c.leader = m.id
			return true
		}
	}
	return false
}

// expireSync removes the members that have joined and then not asked for their
// assignment. (expirePendingSync)
func (p *partition) expireSync(g *group) {
	c := g.classic
	if c.state != CompletingRebalance && c.state != Stable || len(c.toSync) == 0 {
		return
	}
	for id := range maps.Clone(c.toSync) {
		if m := c.members[id]; m != nil {
			c.remove(m, ErrUnknownMember)
		}
	}
	p.prepareRebalance(g)
}

// writeGroup writes the record of a group. If that fails what is stored of it is of an
// earlier generation, whose members are gone and will be found to be so. It returns the
// last offset for settle.
func (p *partition) writeGroup(g *group, assignments map[string][]byte) (last int64, err error) {
	log, err := p.writable()
	if err != nil {
		return 0, err
	}
	e := newEncoder()
	defer e.free()
	e.group(g.id, g.classic.value(assignments))
	at, err := log.Append(e.build(time.Now().UnixMilli()), &seglog.AppendOptions{Sync: &never})
	if err != nil {
		return 0, coordinatorError(err)
	}
	p.mu.queue = append(p.mu.queue, change{base: at.BaseOffset, last: at.LastOffset})
	if p.store.opts.Sync == seglog.SyncNever {
		p.applyLocked(at.LastOffset)
	}
	return at.LastOffset, nil
}

// SyncRequest asks for a member's assignment.
type SyncRequest struct {
	Group  string
	Member Member
	// Assignments are those of all members, by their ids, from the leader. See
	// JoinResult.Assign.
	Assignments map[string][]byte
}

// SyncGroup returns what the leader has assigned to a member. It waits until the leader
// has called it, and the assignments are on disk. The caller owns the bytes; for
// consumers they are an encoded Assignment, or empty.
func (s *Store) SyncGroup(ctx context.Context, r SyncRequest) ([]byte, error) {
	p, err := s.group(ctx, Read, r.Group)
	if err != nil {
		return nil, err
	}
	wait, finish, err := p.sync(&r)
	if err != nil {
		return nil, err
	}
	if finish != nil {
		finish(context.WithoutCancel(ctx)) // others wait for it, too
	}
	select {
	case reply := <-wait:
		return bytes.Clone(reply.assignment), reply.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *partition) sync(r *SyncRequest) (wait chan syncReply, finish func(context.Context), err error) {
	p.lock()
	defer p.unlock()
	g := p.mu.groups[r.Group]
	if p.mu.closed {
		return nil, nil, ErrNotAvailable
	}
	if err := g.mayAct(&r.Member); err != nil {
		return nil, nil, err
	}
	c := g.classic
	m := c.members[r.Member.ID]
	wait = make(chan syncReply, 1)
	switch c.state {
	case PreparingRebalance:
		return nil, nil, ErrRebalancing
	case Stable:
		delete(c.toSync, m.id)
		wait <- syncReply{assignment: m.assignment}
		return wait, nil, nil
	}
	delete(c.toSync, m.id)
	m.replySync(nil, ErrRebalancing) // to an earlier call, which nobody waits for
	m.sync = wait
	if m.id != c.leader {
		return wait, nil, nil
	}
	assignments := make(map[string][]byte, len(c.members))
	for id := range c.members {
		assignments[id] = bytes.Clone(r.Assignments[id])
	}
	last, failed := p.writeGroup(g, assignments)
	generation := c.generation
	return wait, func(ctx context.Context) {
		if failed == nil {
			failed = p.settle(ctx, last)
		}
		p.finishSync(g, c, generation, assignments, failed)
	}, nil
}

// finishSync gives all members their assignments, unless the group has gone on
// meanwhile.
func (p *partition) finishSync(g *group, c *classic, generation int32, assignments map[string][]byte, err error) {
	p.lock()
	defer p.unlock()
	if p.mu.closed || g.classic != c || c.state != CompletingRebalance || c.generation != generation {
		return
	}
	if err != nil {
		c.propagate(nil, err)
		p.prepareRebalance(g)
		return
	}
	c.propagate(assignments, nil)
	c.become(Stable)
}

// propagate answers all that wait for their assignments.
func (c *classic) propagate(assignments map[string][]byte, err error) {
	for id, m := range c.members {
		m.assignment = assignments[id]
		if m.sync != nil {
			m.replySync(m.assignment, err)
			m.heard()
		}
	}
}

// mayAct checks who says that it is a member. It also works on nil, a group that does
// not exist.
func (g *group) mayAct(m *Member) error {
	switch {
	case g == nil || g.classic == nil:
		return ErrUnknownMember
	case g.classic.state == Dead:
		return ErrNotAvailable
	}
	if err := g.classic.check(m); err != nil {
		return err
	}
	if m.Generation != g.classic.generation {
		return ErrIllegalGeneration
	}
	return nil
}

// Heartbeat keeps a member's session alive; commits do, too. ErrRebalancing, which does
// as well, says that it has to join again.
func (s *Store) Heartbeat(ctx context.Context, group string, m Member) error {
	p, err := s.group(ctx, Read, group)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return ErrNotAvailable
	}
	g := p.mu.groups[group]
	if err := g.mayAct(&m); err != nil {
		return err
	}
	g.classic.members[m.ID].heard()
	if g.classic.state == PreparingRebalance {
		return ErrRebalancing
	}
	return nil
}

// LeaveGroup ends a membership, and returns when it is on disk that the group is empty,
// if it is. Of a static member the instance id is enough; who
// closes for a short time had better not leave. The generation does not matter.
func (s *Store) LeaveGroup(ctx context.Context, group string, m Member) error {
	p, err := s.group(ctx, Read, group)
	if err != nil {
		return err
	}
	if err := p.leave(group, m); err != nil {
		return err
	}
	return p.settleAll(ctx)
}

func (p *partition) leave(group string, m Member) error {
	p.lock()
	defer p.unlock()
	g := p.mu.groups[group]
	switch {
	case p.mu.closed:
		return ErrNotAvailable
	case g == nil || g.classic == nil:
		return ErrUnknownMember
	}
	if m.ID == "" && m.InstanceID != "" {
		m.ID = g.classic.static[m.InstanceID]
	}
	if err := g.classic.check(&m); err != nil {
		return err
	}
	p.removeMember(g, g.classic.members[m.ID], ErrUnknownMember)
	return nil
}

// removeMember takes a member out and has the others go on.
// (removeMemberAndUpdateClassicGroup)
func (p *partition) removeMember(g *group, m *member, why error) {
	c := g.classic
	c.remove(m, why)
	switch c.state {
	case Stable, CompletingRebalance:
		p.prepareRebalance(g)
	case PreparingRebalance:
		p.maybeCompleteJoin(g)
	}
}

// RemoveMembers takes all members out of a group, of any type, as if their sessions had
// ended, and returns when that is on disk. It is for members that are known to be gone,
// as those of a broker that has stopped; until their sessions end they keep a group from
// being reset or deleted. A member that is there after all learns from its next request
// that it is none, joins again, and begins where the offsets of the group say.
// ErrGroupNotFound says that there is no such group.
func (s *Store) RemoveMembers(ctx context.Context, group string) error {
	p, err := s.group(ctx, Read, group)
	if err != nil {
		return err
	}
	p.order.Lock()
	defer p.order.Unlock()
	if err := p.drain(); err != nil {
		return err
	}
	e, err := p.membersLeave(group)
	if err != nil {
		return err
	}
	return p.write(e)
}

// membersLeave returns the records that say so. order must be held.
func (p *partition) membersLeave(group string) (*encoder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.mu.groups[group]
	switch {
	case p.mu.closed:
		return nil, ErrNotAvailable
	case g == nil:
		return nil, ErrGroupNotFound
	}
	e := newEncoder()
	if c := g.classic; c != nil && c.state != Empty {
		c.endPhase()
		for _, m := range c.sorted() {
			c.remove(m, ErrUnknownMember)
		}
		c.nextGeneration()
		e.group(g.id, c.value(nil))
	}
	if g.modern != nil {
		for _, key := range g.modern.removals(true) {
			e.rawTombstone(key)
		}
	}
	return e, nil
}

// beginSession watches over a member. Who waits in JoinGroup or SyncGroup lives.
func (p *partition) beginSession(g *group, m *member) {
	c := g.classic
	m.deadline = time.Now().Add(m.sessionTimeout)
	m.session = time.AfterFunc(m.sessionTimeout, func() {
		p.lock()
		defer p.unlock()
		if p.mu.closed || g.classic != c || c.members[m.id] != m || time.Now().Before(m.deadline) || m.join != nil || m.sync != nil {
			return
		}
		p.removeMember(g, m, ErrUnknownMember)
	})
}

// beginSessionsLocked gives the members that were loaded the time of a session to show
// that they are there.
func (p *partition) beginSessionsLocked() {
	for _, g := range p.mu.groups {
		if g.classic != nil {
			for _, m := range g.classic.members {
				p.beginSession(g, m)
			}
		}
	}
}

func (p *partition) endSessionsLocked() {
	for _, g := range p.mu.groups {
		if g.classic == nil {
			continue
		}
		g.classic.endPhase()
		for _, m := range g.classic.members {
			m.reply(JoinResult{}, ErrNotAvailable)
			m.replySync(nil, ErrNotAvailable)
			m.endSession()
		}
	}
}
