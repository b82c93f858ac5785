package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxTopic is the longest topic name that Kafka allows (Topic.java).
	maxTopic = 249
	// maxName is the longest name that the usual file systems allow. Kafka
	// shortens the topic in the name of a directory it is about to remove.
	maxName = 255
	// idDigits is the length of a UUID in hexadecimal without dashes.
	idDigits = 32

	deletedDirSuffix = "-delete"
	futureDirSuffix  = "-future"
	strayDirSuffix   = "-stray"
)

// ErrName is the category of every *NameError.
var ErrName = errors.New("name breaks a rule of the directory layout")

// A NameError says which rule a name breaks, be it one that was parsed or one
// that was to be built. It matches ErrName.
type NameError struct {
	Name string
	Rule Rule
}

func (e *NameError) Error() string { return fmt.Sprintf("name %q: %s", e.Name, string(e.Rule)) }

// Unwrap returns ErrName.
func (e *NameError) Unwrap() error { return ErrName }

// Rule is a rule that names follow, in words.
type Rule string

// The rules for topics and for the directories of partitions.
const (
	RuleTopicEmpty      Rule = "the topic is empty"
	RuleTopicDots       Rule = "a topic is not called . or .."
	RuleTopicLength     Rule = "a topic has at most 249 characters"
	RuleTopicCharacters Rule = "a topic has only ASCII letters, digits, dots, underscores and dashes"
	RuleDash            Rule = "a dash parts topic and partition"
	RulePartition       Rule = "a partition is a plain decimal number from 0 to 2147483647"
	RuleMark            Rule = "a marked directory is called topic-partition.id-mark"
	RuleID              Rule = "the id of a marked directory has 32 hexadecimal digits, a live one has none"
	RuleState           Rule = "a directory is live, deleted, future or stray"
	RuleLength          Rule = "a name has at most 255 characters"
)

// Dir is a parsed name of a partition's directory.
type Dir struct {
	Topic     string
	Partition int32
	State     State
	// ID is 32 hexadecimal digits that set apart the directories of one
	// partition, unless State is Live: then it is "".
	ID string
}

// ParseDir tells which partition a directory holds by its name. The last dash
// parts topic and partition, because topics may have dashes and dots of their
// own:
//
//	orders.eu-west-3                                         live
//	orders-3.0123456789abcdef0123456789abcdef-delete         deleted
//	orders-3.0123456789abcdef0123456789abcdef-future         future
//	orders-3.0123456789abcdef0123456789abcdef-stray          stray
//
// Any other name is a *NameError; such a directory is not ours to touch. We are
// stricter than LocalLog.parseTopicPartitionName, which also takes partitions
// like +3 or 007, ids that are not hexadecimal, and topics that Kafka would not
// create: one partition must not have two directories.
//
// The topic of a deleted or stray directory may be the beginning of the real
// one, see [Dir.Name].
func ParseDir(name string) (Dir, error) {
	dir, plain, err := cutMark(name)
	if err != nil {
		return Dir{}, err
	}
	dash := strings.LastIndexByte(plain, '-')
	if dash < 0 {
		return Dir{}, &NameError{name, RuleDash}
	}
	dir.Topic = plain[:dash]
	if rule := brokenTopicRule(dir.Topic); rule != "" {
		return Dir{}, &NameError{name, rule}
	}
	if dir.Partition, err = ParsePartition(plain[dash+1:]); err != nil {
		return Dir{}, &NameError{name, RulePartition}
	}
	if len(name) > maxName {
		return Dir{}, &NameError{name, RuleLength}
	}
	return dir, nil
}

// cutMark splits a name into what its mark says and what stands before that.
func cutMark(name string) (dir Dir, plain string, err error) {
	for _, state := range []State{Deleted, Future, Stray} {
		marked, found := strings.CutSuffix(name, dirSuffix(state))
		if !found {
			continue
		}
		dot := strings.LastIndexByte(marked, '.')
		if dot < 0 {
			return Dir{}, "", &NameError{name, RuleMark}
		}
		id := marked[dot+1:]
		if !isID(id) {
			return Dir{}, "", &NameError{name, RuleID}
		}
		return Dir{State: state, ID: id}, marked[:dot], nil
	}
	return Dir{}, name, nil
}

// Name returns the name of the directory. To stay within 255 characters the
// topic of a deleted or stray directory is cut short; a live or future one
// must be found again under its own name, so a long one is refused.
// The error is a *NameError.
func (d Dir) Name() (string, error) {
	tail := "-" + strconv.Itoa(int(d.Partition))
	if d.State != Live {
		tail += "." + d.ID + dirSuffix(d.State)
	}
	name := d.Topic + tail
	if rule := d.brokenRule(); rule != "" {
		return "", &NameError{name, rule}
	}
	if len(name) <= maxName {
		return name, nil
	}
	if d.State == Live || d.State == Future {
		return "", &NameError{name, RuleLength}
	}
	return d.Topic[:maxName-len(tail)] + tail, nil
}

func (d Dir) brokenRule() Rule {
	if rule := brokenTopicRule(d.Topic); rule != "" {
		return rule
	}
	if d.Partition < 0 {
		return RulePartition
	}
	if d.State == Live {
		if d.ID != "" {
			return RuleID
		}
		return ""
	}
	if dirSuffix(d.State) == "" {
		return RuleState
	}
	if !isID(d.ID) {
		return RuleID
	}
	return ""
}

// ReservedDir reports whether a directory inside a log directory holds
// something else than the data of a topic, whatever ParseDir says about its
// name: the log of the KRaft controller, or indexes cached from remote storage.
// Kafka's LogManager skips them.
func ReservedDir(name string) bool {
	return name == "__cluster_metadata-0" || name == "remote-log-index-cache"
}

// CheckTopic returns a *NameError unless Kafka would create a topic of this
// name (Topic.java).
func CheckTopic(topic string) error {
	if rule := brokenTopicRule(topic); rule != "" {
		return &NameError{topic, rule}
	}
	return nil
}

func brokenTopicRule(topic string) Rule {
	switch {
	case topic == "":
		return RuleTopicEmpty
	case topic == "." || topic == "..":
		return RuleTopicDots
	case len(topic) > maxTopic:
		return RuleTopicLength
	}
	for i := range len(topic) {
		if !isTopicByte(topic[i]) {
			return RuleTopicCharacters
		}
	}
	return ""
}

func isTopicByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}

// ParsePartition reads a partition number as strconv.Itoa writes it: no sign,
// no leading zeros. Anything else is a *NameError.
func ParsePartition(s string) (int32, error) {
	n, ok := parseInt31(s)
	if !ok || len(s) > 1 && s[0] == '0' {
		return 0, &NameError{s, RulePartition}
	}
	return n, nil
}

func isID(s string) bool {
	for i := range len(s) {
		if !isHexDigit(s[i]) {
			return false
		}
	}
	return len(s) == idDigits
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func dirSuffix(s State) string {
	switch s {
	case Deleted:
		return deletedDirSuffix
	case Future:
		return futureDirSuffix
	case Stray:
		return strayDirSuffix
	}
	return ""
}
