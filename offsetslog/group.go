package offsetslog

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// State is where a group is in its life.
type State int8

// The states of a group, with the names Kafka shows (ClassicGroupState.java).
const (
	// Empty has no members, and maybe offsets.
	Empty State = iota
	// PreparingRebalance waits for the members to join.
	PreparingRebalance
	// CompletingRebalance waits for the assignment of the leader.
	CompletingRebalance
	// Stable has members that know their assignments.
	Stable
	// Dead is being removed.
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// classic is the membership of a group of the classic protocol. It is guarded by
// partition.mu, and whoever may have to write a record holds partition.order, too.
type classic struct {
	state  State
	before State // the state it was in before
	// stateTimestamp is when it came into its state, -1 if that is not known.
	stateTimestamp int64
	protocolType   string
	protocol       *string
	leader         string
	generation     int32
	members        map[string]*member
	static         map[string]string // member ids by instance id
	// subscribed are the topics that any member is subscribed to; nil if it is not
	// known which.
	subscribed map[string]struct{}

	// newcomer: somebody has joined during the initial delay.
	newcomer bool
	// toSync are the members that have not asked for their assignment.
	toSync map[string]struct{}
	// phase ends the time to join or to sync. phases counts how often it was set, so
	// that one that comes late is known.
	phase  *time.Timer
	phases int
}

// member is one of a classic group.
type member struct {
	id, instanceID, clientID, clientHost string
	sessionTimeout, rebalanceTimeout     time.Duration
	protocols                            []Protocol
	assignment                           []byte

	// join and sync are not nil while the member waits there. They take one reply.
	join chan joinReply
	sync chan syncReply

	session  *time.Timer
	deadline time.Time // when the session ends
}

type joinReply struct {
	result JoinResult
	err    error
}

type syncReply struct {
	assignment []byte
	err        error
}

func newClassic() *classic {
	return &classic{
		stateTimestamp: time.Now().UnixMilli(), before: Dead,
		members: map[string]*member{}, static: map[string]string{}, toSync: map[string]struct{}{},
	}
}

// loadedGroup is a group as its record tells of it.
// (GroupMetadataManager.replay of GroupMetadataKey)
func loadedGroup(v GroupValue) *classic {
	c := newClassic()
	c.stateTimestamp = v.StateTimestamp
	c.protocolType, c.protocol, c.generation = v.ProtocolType, v.Protocol, v.Generation
	if v.Leader != nil {
		c.leader = *v.Leader
	}
	protocol := ""
	if v.Protocol != nil {
		protocol = *v.Protocol
	}
	for _, m := range v.Members {
		c.add(&member{
			id: m.ID, instanceID: orEmpty(m.InstanceID), clientID: m.ClientID, clientHost: m.ClientHost,
			sessionTimeout:   time.Duration(m.SessionTimeout) * time.Millisecond,
			rebalanceTimeout: time.Duration(m.RebalanceTimeout) * time.Millisecond,
			protocols:        []Protocol{{protocol, slices.Clone(m.Subscription)}},
			assignment:       slices.Clone(m.Assignment),
		})
	}
	if len(c.members) > 0 {
		c.state = Stable
	}
	c.learnSubscriptions()
	return c
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// value is the group as it is stored, with the given assignments.
func (c *classic) value(assignments map[string][]byte) GroupValue {
	v := GroupValue{
		ProtocolType: c.protocolType, Generation: c.generation, Protocol: c.protocol,
		Leader: orNil(c.leader), StateTimestamp: c.stateTimestamp,
	}
	for _, m := range c.sorted() {
		v.Members = append(v.Members, MemberValue{
			ID: m.id, InstanceID: orNil(m.instanceID), ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeout: int32(m.rebalanceTimeout.Milliseconds()), SessionTimeout: int32(m.sessionTimeout.Milliseconds()),
			Subscription: m.metadata(orEmpty(c.protocol)), Assignment: assignments[m.id],
		})
	}
	return v
}

func (c *classic) sorted() []*member {
	return slices.SortedFunc(maps.Values(c.members), func(a, b *member) int { return cmp.Compare(a.id, b.id) })
}

func (c *classic) become(s State) {
	c.before, c.state = c.state, s
	c.stateTimestamp = time.Now().UnixMilli()
}

func (c *classic) add(m *member) {
	if c.leader == "" {
		c.leader = m.id
	}
	c.members[m.id] = m
	if m.instanceID != "" {
		c.static[m.instanceID] = m.id
	}
}

// remove takes a member out, who is told why if it waits. Another becomes the leader.
func (c *classic) remove(m *member, why error) {
	m.reply(JoinResult{}, why)
	m.replySync(nil, why)
	m.endSession()
	delete(c.members, m.id)
	delete(c.toSync, m.id)
	if m.instanceID != "" && c.static[m.instanceID] == m.id {
		delete(c.static, m.instanceID)
	}
	if c.leader == m.id {
		c.leader = ""
		if rest := c.sorted(); len(rest) > 0 {
			c.leader = rest[0].id
		}
	}
}

func (c *classic) allJoined() bool {
	for _, m := range c.members {
		if m.join == nil {
			return false
		}
	}
	return true
}

func (c *classic) awaitingJoin() (n int) {
	for _, m := range c.members {
		if m.join != nil {
			n++
		}
	}
	return n
}

// rebalanceTimeout is the longest of all members.
func (c *classic) rebalanceTimeout() (d time.Duration) {
	for _, m := range c.members {
		d = max(d, m.rebalanceTimeout)
	}
	return d
}

// supports reports whether there is a protocol that all members have, and one who
// has these. (ClassicGroup.supportsProtocols)
func (c *classic) supports(protocolType string, protocols []Protocol) bool {
	if c.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == c.protocolType && slices.ContainsFunc(protocols, func(p Protocol) bool { return c.common(p.Name) })
}

// common reports whether all members have a protocol.
func (c *classic) common(protocol string) bool {
	for _, m := range c.members {
		if !slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol }) {
			return false
		}
	}
	return true
}

// choose returns the protocol that most members like best of those that all have. Of
// several it is the first by name. (ClassicGroup.selectProtocol)
func (c *classic) choose() string {
	votes := map[string]int{}
	for _, m := range c.members {
		if i := slices.IndexFunc(m.protocols, func(p Protocol) bool { return c.common(p.Name) }); i >= 0 {
			votes[m.protocols[i].Name]++
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// nextGeneration is ClassicGroup.initNextGeneration.
func (c *classic) nextGeneration() {
	c.generation++
	clear(c.toSync)
	if len(c.members) == 0 {
		c.protocol = nil
		c.become(Empty)
	} else {
		protocol := c.choose()
		c.protocol = &protocol
		c.become(CompletingRebalance)
	}
	c.learnSubscriptions()
}

// learnSubscriptions is ClassicGroup.computeSubscribedTopics: what one member is
// subscribed to that cannot be decoded may be anything.
func (c *classic) learnSubscriptions() {
	c.subscribed = nil
	if c.protocolType != ConsumerProtocol || len(c.members) > 0 && c.protocol == nil {
		return
	}
	topics := map[string]struct{}{}
	for _, m := range c.members {
		names, err := subscribedTopics(m.metadata(*c.protocol))
		if err != nil {
			return
		}
		for _, t := range names {
			topics[t] = struct{}{}
		}
	}
	c.subscribed = topics
}

// subscribedTopics decodes no more than all versions have in common.
func subscribedTopics(b []byte) (topics []string, err error) {
	r := reader{what: "subscription", b: b}
	r.protocolVersion()
	for n := r.count("topics", 2); n > 0 && r.err == nil; n-- {
		topics = append(topics, r.string("topic"))
	}
	return topics, r.err
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// matches reports whether the member says nothing new.
func (m *member) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

func (m *member) reply(r JoinResult, err error) {
	if m.join != nil {
		m.join <- joinReply{r, err}
		m.join = nil
	}
}

func (m *member) replySync(assignment []byte, err error) {
	if m.sync != nil {
		m.sync <- syncReply{assignment, err}
		m.sync = nil
	}
}

// heard begins the member's session anew.
func (m *member) heard() {
	m.deadline = time.Now().Add(m.sessionTimeout)
	if m.session != nil {
		m.session.Reset(m.sessionTimeout)
	}
}

func (m *member) endSession() {
	if m.session != nil {
		m.session.Stop()
	}
}
