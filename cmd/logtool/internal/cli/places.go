package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// places tells where in the files of a log something is, which the library keeps
// to itself.
type places struct {
	dir string
	log *seglog.Log
	fs  vfs.FS

	bases       []int64 // of the segments, as last listed
	seg         *segment.Segment
	scan        segment.Scanner
	first, last int64 // offsets of the batch that scan is at
}

// open returns the segment with the given base offset, open for reading and
// acquired until close or the next call.
func (p *places) open(base int64) (*segment.Segment, error) {
	if p.seg != nil && p.seg.Base() == base {
		return p.seg, nil
	}
	if err := p.close(); err != nil {
		return nil, err
	}
	opts := segment.Options{FS: p.fs, ReadOnly: true}
	// After a crash in the middle of a swap the segment has that name still.
	_, err := p.fs.Stat(filepath.Join(p.dir, layout.LogName(base)))
	if errors.Is(err, fs.ErrNotExist) {
		opts.Suffix = layout.SwapSuffix
	}
	s := segment.Open(p.dir, base, opts)
	if err := s.Acquire(); err != nil {
		return nil, fmt.Errorf("open %s: %w", s.Name(), err)
	}
	p.seg, p.first, p.last = s, 0, -1
	return s, nil
}

func (p *places) close() error {
	if p.seg == nil {
		return nil
	}
	p.seg.Release()
	err := p.seg.Retire()
	p.seg = nil
	return err
}

// floor returns the base offset of the last segment that does not begin above
// offset.
func (p *places) floor(offset int64) (int64, error) {
	if p.bases == nil {
		infos, err := p.log.Segments()
		if err != nil {
			return 0, err
		}
		for _, info := range infos {
			p.bases = append(p.bases, info.BaseOffset)
		}
	}
	i, found := slices.BinarySearch(p.bases, offset)
	if !found {
		i = max(i-1, 0)
	}
	return p.bases[i], nil
}

// position returns where the batch that holds offset, which is in the log, begins
// in its .log file. Asking for the next offset again and again costs little.
func (p *places) position(offset int64) (int64, error) {
	if p.seg != nil && p.first <= offset && offset <= p.last {
		return p.scan.Position(), nil
	}
	err := p.seek(offset)
	if errors.Is(err, io.EOF) {
		// Written since the segment was opened, or in a segment begun since.
		p.bases = nil
		if err = p.close(); err == nil {
			err = p.seek(offset)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("find the position of offset %d: %w", offset, err)
	}
	return p.scan.Position(), nil
}

func (p *places) seek(offset int64) error {
	base, err := p.floor(offset)
	if err != nil {
		return err
	}
	s, err := p.open(base)
	if err != nil {
		return err
	}
	if err := s.SeekOffset(&p.scan, offset); err != nil {
		return err
	}
	h, err := p.scan.Header()
	p.first, p.last = h.BaseOffset, h.LastOffset
	return err
}
