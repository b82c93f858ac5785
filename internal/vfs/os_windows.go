package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// openFile differs from os.OpenFile in one flag: FILE_SHARE_DELETE, with which
// an open segment can be renamed and removed, as on unix.
func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	handle, err := createFile(name, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(handle), name)
	if flag&os.O_TRUNC != 0 {
		if err := f.Truncate(0); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

func createFile(name string, flag int, perm fs.FileMode) (windows.Handle, error) {
	if flag&os.O_APPEND != 0 {
		return 0, fs.ErrInvalid
	}
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	var access uint32
	attributes := uint32(windows.FILE_ATTRIBUTE_NORMAL)
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_WRONLY:
		access = windows.GENERIC_WRITE
	case os.O_RDWR:
		access = windows.GENERIC_READ | windows.GENERIC_WRITE
	default:
		access = windows.GENERIC_READ
		attributes |= windows.FILE_FLAG_BACKUP_SEMANTICS // or a directory does not open
	}
	disposition := uint32(windows.OPEN_EXISTING)
	switch {
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		disposition = windows.CREATE_NEW
	case flag&os.O_CREATE != 0:
		disposition = windows.OPEN_ALWAYS
	}
	if flag&os.O_CREATE != 0 && perm&0o200 == 0 {
		attributes = attributes&^windows.FILE_ATTRIBUTE_NORMAL | windows.FILE_ATTRIBUTE_READONLY
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	return windows.CreateFile(path, access, share, nil, disposition, attributes, 0)
}

func syncDir(string) error { return nil }

func freeSpace(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}

func refusedWhileMapped(err error) bool { return errors.Is(err, windows.ERROR_USER_MAPPED_FILE) }

func outOfMappings(error) bool { return false }
