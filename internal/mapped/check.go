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
// broken, or for bytes behind the last whole slot; a *FaultError if they cannot
// be read.
func (t *Table) Check() error {
	if t.partial != 0 {
		return t.partialError()
	}
	return t.firstBroken(func(v View) (int, string) {
		for slot := range v.Len {
			if rule := t.layout.Broken(v, slot, slot-1); rule != "" {
				return slot, rule
			}
		}
		return 0, ""
	})
}

// checkEnds is the part of Check that takes no time.
func (t *Table) checkEnds() error {
	return t.firstBroken(func(v View) (int, string) {
		if v.Len == 0 {
			return 0, ""
		}
		last := v.Len - 1
		for _, pair := range [...]struct{ slot, before int }{{0, -1}, {last, min(0, last-1)}, {last, last - 1}} {
			if rule := t.layout.Broken(v, pair.slot, pair.before); rule != "" {
				return pair.slot, rule
			}
		}
		return 0, ""
	})
}

// firstBroken turns what find says of the entries into an error. No rule, none.
func (t *Table) firstBroken(find func(View) (slot int, rule string)) error {
	var slot int
	var rule string
	if err := t.Read(func(v View) { slot, rule = find(v) }); err != nil {
		return err
	}
	if rule == "" {
		return nil
	}
	return t.corrupt(slot, rule)
}

func (t *Table) partialError() error {
	return t.corrupt(-1, fmt.Sprintf("length %d is not a multiple of %d", t.length, t.layout.EntrySize))
}

func (t *Table) corrupt(entry int, rule string) error {
	return &CorruptError{File: t.path, Entry: entry, Rule: rule}
}
