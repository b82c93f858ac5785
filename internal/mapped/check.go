package mapped

import "fmt"

// CorruptError reports a file that breaks a rule of its format.
type CorruptError struct {
	File  string
	Entry int    // number of the entry, -1 if the file as a whole is wrong
	Rule  string // what is wrong with it, as a phrase
}

func (e *CorruptError) Error() string {
	if e.Entry < 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Rule)
	}
	return fmt.Sprintf("%s: entry %d: %s", e.File, e.Entry, e.Rule)
}

// Check reads all entries and returns a *CorruptError for the first one that is
// broken, or for bytes behind the last whole slot. It must not run beside
// TruncateTo.
func (t *Table) Check() error {
	if t.partial != 0 {
		return t.partialError()
	}
	v := t.View()
	for slot := range v.Len {
		if rule := t.layout.Broken(v, slot, slot-1); rule != "" {
			return t.corrupt(slot, rule)
		}
	}
	return nil
}

// checkEnds is the part of Check that takes no time.
func (t *Table) checkEnds() error {
	v := t.View()
	if v.Len == 0 {
		return nil
	}
	last := v.Len - 1
	for _, pair := range [...]struct{ slot, before int }{{0, -1}, {last, min(0, last-1)}, {last, last - 1}} {
		if rule := t.layout.Broken(v, pair.slot, pair.before); rule != "" {
			return t.corrupt(pair.slot, rule)
		}
	}
	return nil
}

func (t *Table) partialError() error {
	return t.corrupt(-1, fmt.Sprintf("length %d is not a multiple of %d", t.length, t.layout.EntrySize))
}

func (t *Table) corrupt(entry int, rule string) error {
	return &CorruptError{File: t.path, Entry: entry, Rule: rule}
}
