package segment

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"

	"github.com/seglog/seglog/internal/mapped"
	"github.com/seglog/seglog/internal/vfs"
)

// logWriter puts sets at the end of the log file of an active segment. A system call for
// each costs more than all the rest of an append. So a log that has taken some bytes that
// way gets room ahead of its end, in which they are stored through a mapping:
//
//	+----------------------+---------------------+--------------------+
//	| batches              | batches, mapped too | zeros, mapped      |
//	+----------------------+---------------------+--------------------+
//	0                    start                  pos                length
//
// The room has its blocks before it is mapped (vfs.MapAhead): a full disk is an error of
// getting room and never a fault. Whenever there is no room, whatever the reason, the set
// is written by a call as before, which has the error if there is one.
//
// What lies behind pos is zeros at all times: a failed set is taken back by cutting the
// file, which becomes longer by zeros only. Nobody reads there in this process. Who reads
// in another one, or after a crash, stops where a batch has a length of 0: so the lengths
// of a set are stored when all else is there, the first one first. The checks of batches
// hold as well, for a power cut may leave any of the pages.
//
// The file is cut to its batches before it is closed, parked or truncated, and when the
// segment was sealed (Trim). So it is longer than the log in two cases only: while it is
// written to, and after a crash, when recovery cuts it.
//
// It is the writer's, as Append is; after Seal it belongs to who holds trimming, or open
// exclusively.
type logWriter struct {
	mapping vfs.Mapping // nil: there is none
	memory  []byte      // of it: the file from start on
	start   int64
	length  int64 // of the file, if it may be longer than the log; else 0
	warm    int64 // the file has its pages up to there; see warmUp
	last    int   // where in memory the length of the last set is, -1: nowhere

	taken int64  // bytes since the file was opened
	wait  int64  // no room is made before so many were taken
	fault error  // the memory has failed: it is not touched any more, nor the file cut
	fence uint32 // see store
}

// quietShare is what share of the room there may be ahead a segment takes by system
// calls, since its file was opened, before there is any: a log that is seldom written to
// has none. Then the room doubles, so that it is at most what was taken.
const quietShare = 16

// leastAhead is a page: less is not worth a mapping.
const leastAhead = 4 << 10

// largeSet is what a call is as fast for as memory without pages.
const largeSet = 8 << 10

// write stores b at pos, the end of the log, which was last synced when it ended at
// synced. Nothing of it counts if it fails; see undo.
func (w *logWriter) write(f vfs.File, b []byte, pos, synced, ahead int64) error {
	if w.fault != nil {
		return w.fault
	}
	if len(b) == 0 {
		return nil
	}
	end := pos + int64(len(b))
	room := w.mapping != nil && end <= w.length
	if !room && ahead > 0 && w.taken >= max(w.wait, ahead/quietShare) {
		var err error
		if room, err = w.advance(f, pos, end, ahead); err != nil {
			return err
		}
	}
	w.taken += int64(len(b))
	if piece := min(warmPiece, ahead/quietShare); room && end > w.warm {
		switch size := int64(len(b)); {
		case size < piece && end-synced > piece:
			w.warmUp(f, pos, end, piece, piece)
		case size <= piece/4: // more would be to write all twice
			w.warmUp(f, pos, end, piece, min(piece, smallPage))
		}
	}
	if room && (len(b) < largeSet || end <= w.warm) {
		return w.store(f, b, int(pos-w.start))
	}
	w.last = -1
	_, err := vfs.WriteFull(f, b, pos)
	return err
}

// advance makes and maps room for [pos, end) and more, and reports whether it could. An
// error is about the file.
func (w *logWriter) advance(f vfs.File, pos, end, ahead int64) (bool, error) {
	if err := w.unmap(); err != nil {
		return false, err
	}
	if err := w.whole(f, pos); err != nil {
		return false, err
	}
	to := min(end+min(ahead, max(w.taken, leastAhead)), MaxBytes)
	m, err := vfs.MapAhead(f, pos, to)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		w.wait = math.MaxInt64
	case err != nil:
		w.wait = w.taken + ahead
		if w.length = to; f.Truncate(pos) == nil { // what it got is not to be missed elsewhere
			w.length = 0
		}
	default:
		w.mapping, w.memory, w.start, w.length, w.last = m, m.Bytes(), pos, to, -1
	}
	return err == nil, nil
}

// warmPiece is for how much of the room pages are made at once, at most, and of what
// size.
const warmPiece = 64 << 10

var zeros [warmPiece]byte

// smallPage is what a kernel has a page for by itself.
const smallPage = 4 << 10

// warmUp makes the pages of the room that a set at [pos, end) and the next ones go to, by
// writing zeros over its zeros, a unit at a time: that takes a third of the time of a fault
// for each page if the units are large, since the kernel takes larger ones then. But a sync
// of any byte then writes all of such a page; so that is for logs of which much is written
// between two syncs. Where each set is synced small ones will do: the first of these syncs
// has a file system note for all of them that their blocks are in use, for which it would
// otherwise write its journal at each new page. It is for speed only: an error is left to
// who has something to say.
func (w *logWriter) warmUp(f vfs.File, pos, end, piece, unit int64) {
	from := max(w.warm, pos)
	to := min((end+piece)/piece*piece, w.length)
	for w.warm = to; from < to; {
		n, err := f.WriteAt(zeros[:min(to-from, unit-from%unit)], from)
		if err != nil {
			return
		}
		from += int64(n)
	}
}

// whole fails if the file does not reach up to the end of the log, pos.
func (w *logWriter) whole(f vfs.File, pos int64) error {
	fi, err := f.Stat()
	if err == nil && fi.Size() < pos {
		err = w.fail(f, fi.Size(), "the file was cut short")
	}
	return err
}

// Of the frame of a batch: base offset, length, and what the length is about.
const (
	lengthAt  = 8
	lengthEnd = 12
)

// store copies b into memory, from at on: all but the lengths of its batches first.
func (w *logWriter) store(f vfs.File, b []byte, at int) (err error) {
	defer w.catch(f, debug.SetPanicOnFault(true), &err)
	to := w.memory[at : at+len(b)]
	// Inside the last page of a file nothing faults: behind its end there are zeros, and
	// what is written there is lost.
	if w.last >= 0 && binary.BigEndian.Uint32(w.memory[w.last:]) == 0 {
		return w.fail(f, w.start+int64(w.last), "the last batch is gone: the file was cut short or is damaged")
	}
	if binary.BigEndian.Uint64(to) != 0 || binary.BigEndian.Uint32(to[lengthAt:]) != 0 {
		return w.fail(f, w.start+int64(at), "someone else has written behind the end of the log")
	}
	for i := 0; i < len(b); {
		next := behind(b, i)
		copy(to[i:], b[i:i+lengthAt])
		copy(to[i+lengthEnd:], b[i+lengthEnd:next])
		i = next
	}
	atomic.AddUint32(&w.fence, 1) // a processor that sees what follows sees what was before
	for i := 0; i < len(b); i = behind(b, i) {
		binary.BigEndian.PutUint32(to[i+lengthAt:], binary.BigEndian.Uint32(b[i+lengthAt:]))
	}
	w.last = at + lengthAt
	return nil
}

// behind is where the batch ends that begins at i. All of them are whole.
func behind(b []byte, i int) int {
	return i + lengthEnd + int(binary.BigEndian.Uint32(b[i+lengthAt:]))
}

// undo takes back what a failed write, or one that was for nothing, has left at pos.
func (w *logWriter) undo(f vfs.File, pos int64) error {
	if w.fault != nil {
		return w.fault
	}
	return w.cut(f, pos)
}

// cut makes pos the end of the log and of its file.
func (w *logWriter) cut(f vfs.File, pos int64) error {
	if err := w.unmap(); err != nil {
		return err
	}
	err := f.Truncate(pos)
	if err == nil {
		w.length = 0
	}
	return err
}

// trim ends the file with the log, which ends at pos, and reports whether that was a
// change, not yet synced. A file whose memory has failed is left for recovery to judge.
func (w *logWriter) trim(f vfs.File, pos int64) (cut bool, err error) {
	if err := w.unmap(); err != nil {
		return false, err
	}
	if w.fault != nil || w.length == 0 || w.length <= pos {
		return false, nil
	}
	if err := w.whole(f, pos); err != nil { // it must not become longer
		return false, err
	}
	return true, w.cut(f, pos)
}

func (w *logWriter) unmap() error {
	if w.mapping == nil {
		return nil
	}
	err := w.mapping.Unmap()
	w.mapping, w.memory, w.last, w.warm = nil, nil, -1, 0
	return err
}

// fail takes note of a fault, and returns the first.
func (w *logWriter) fail(f vfs.File, pos int64, reason string) error {
	if w.fault == nil {
		w.fault = &mapped.FaultError{File: f.Name(), Position: pos, Reason: reason}
	}
	return w.fault
}

// catch is deferred where memory is written, given what SetPanicOnFault was before.
func (w *logWriter) catch(f vfs.File, panicOnFault bool, err *error) {
	debug.SetPanicOnFault(panicOnFault)
	if p := recover(); p != nil {
		if !mapped.IsFault(p) {
			panic(p)
		}
		*err = w.fail(f, -1, "the file was cut short or its disk failed")
	}
}
