package work

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// floorRecord is the size of a Kafka batch of one record of 16 and 128 bytes.
const floorRecord = 215

// runFloors measures all floors, each in a part of the time.
func runFloors(job Job) (map[string]float64, error) {
	t := &task{Job: job, random: rand.New(rand.NewPCG(job.Seed, 1)), figures: map[string]float64{}}
	t.BoxNs /= 2
	t.memory = watchMemory()
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return nil, err
	}
	for _, f := range []func(*task) error{
		floorWrite, floorAllocated, floorMap, floorSyncGrowing, floorSyncAllocated, floorPread, floorMemory,
	} {
		if err := f(t); err != nil {
			return nil, err
		}
	}
	t.measured()
	return t.figures, nil
}

// onFile makes a file, of some allocated size if that is not 0, and removes it.
func (t *task) onFile(allocated int64, f func(fd int) error) error {
	name := filepath.Join(t.Dir, "floor")
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if allocated > 0 {
		err = unix.Fallocate(int(file.Fd()), 0, 0, allocated)
	}
	if err == nil {
		err = f(int(file.Fd()))
	}
	return errors.Join(err, file.Close(), os.Remove(name))
}

const floorSpace = 256 << 20

func (t *task) perOp(name string, limit int64, op func(i int64) error) error {
	ops, elapsed, err := repeat(t.box(), limit, op)
	if ops > 0 {
		t.figures[name] = float64(elapsed.Nanoseconds()) / float64(ops)
	}
	return err
}

func floorWrite(t *task) error {
	buf := make([]byte, floorRecord)
	return t.onFile(0, func(fd int) error {
		return t.perOp("write", floorSpace/floorRecord, func(int64) error {
			_, err := unix.Write(fd, buf)
			return err
		})
	})
}

func floorAllocated(t *task) error {
	buf := make([]byte, floorRecord)
	return t.onFile(floorSpace, func(fd int) error {
		return t.perOp("pwrite-allocated", floorSpace/floorRecord, func(i int64) error {
			_, err := unix.Pwrite(fd, buf, i*floorRecord)
			return err
		})
	})
}

func floorMap(t *task) error {
	buf := make([]byte, floorRecord)
	const ahead = 64 << 10
	return t.onFile(floorSpace, func(fd int) error {
		memory, err := unix.Mmap(fd, 0, floorSpace, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		populated := int64(0)
		err = t.perOp("map", floorSpace/floorRecord, func(i int64) error {
			at := i * floorRecord
			if at+floorRecord > populated {
				next := memory[populated:min(populated+ahead, floorSpace)]
				if err := unix.Madvise(next, unix.MADV_POPULATE_WRITE); err != nil {
					return err
				}
				populated += ahead
			}
			copy(memory[at:], buf)
			return nil
		})
		return errors.Join(err, unix.Munmap(memory))
	})
}

func (t *task) syncs(name string, allocated int64) error {
	var h Histogram
	buf := make([]byte, floorRecord)
	err := t.onFile(allocated, func(fd int) error {
		_, _, err := repeat(t.box(), floorSpace/floorRecord, func(i int64) error {
			start := time.Now()
			if _, err := unix.Pwrite(fd, buf, i*floorRecord); err != nil {
				return err
			}
			err := unix.Fdatasync(fd)
			h.Add(time.Since(start))
			return err
		})
		return err
	})
	t.figures[name] = float64(h.Quantile(0.5).Nanoseconds()) / 1e3
	return err
}

func floorSyncGrowing(t *task) error   { return t.syncs("fdatasync-growing", 0) }
func floorSyncAllocated(t *task) error { return t.syncs("fdatasync-allocated", floorSpace) }

// floorPread reads pages of a file that was just written, by calls and in a mapping.
func floorPread(t *task) error {
	const page = 4096
	chunk := make([]byte, 1<<20)
	buf := make([]byte, page)
	return t.onFile(0, func(fd int) error {
		for i := range int64(floorSpace / len(chunk)) {
			binary.LittleEndian.PutUint64(chunk, uint64(i))
			if _, err := unix.Pwrite(fd, chunk, i*int64(len(chunk))); err != nil {
				return err
			}
		}
		err := t.perOp("pread", 1<<62, func(int64) error {
			_, err := unix.Pread(fd, buf, t.random.Int64N(floorSpace/page)*page)
			return err
		})
		if err != nil {
			return err
		}
		memory, err := unix.Mmap(fd, 0, floorSpace, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return err
		}
		at := uint64(0)
		err = t.perOp("touch", 1<<62, func(i int64) error {
			// The next page depends on what the last one held, so that they cannot be
			// fetched at once.
			at = (at*6364136223846793005 + 1442695040888963407 + uint64(memory[at>>40%(floorSpace/page)*page])) ^ uint64(i)
			return nil
		})
		return errors.Join(err, unix.Munmap(memory))
	})
}

// floorMemory reads memory, which is more than any cache holds, as a scan of a mapped
// log does.
func floorMemory(t *task) error {
	memory, err := unix.Mmap(-1, 0, floorSpace, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	sum := uint64(0)
	table := crc32.MakeTable(crc32.Castagnoli)
	perSecond := func(name string, piece int, f func(b []byte)) error {
		each := int64(floorSpace / piece)
		ops, elapsed, err := repeat(t.box(), 1<<62, func(i int64) error {
			at := int(i%each) * piece
			f(memory[at : at+piece])
			return nil
		})
		t.figures[name] = float64(ops) * float64(piece) / elapsed.Seconds() / 1e9
		return err
	}
	err = errors.Join(
		perSecond("memory", 16<<10, func(b []byte) {
			for i := 0; i+32 <= len(b); i += 32 {
				sum += binary.NativeEndian.Uint64(b[i:]) ^ binary.NativeEndian.Uint64(b[i+8:]) ^
					binary.NativeEndian.Uint64(b[i+16:]) ^ binary.NativeEndian.Uint64(b[i+24:])
			}
		}),
		perSecond("crc", 4000, func(b []byte) { sum += uint64(crc32.Checksum(b, table)) }),
		perSecond("crc-whole", 16<<10, func(b []byte) { sum += uint64(crc32.Checksum(b, table)) }),
	)
	if sum == 1 { // so that nothing is left out
		return errors.New("impossible sum")
	}
	return errors.Join(err, unix.Munmap(memory))
}
