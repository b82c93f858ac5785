package vfs

import "errors"

// IsNoSpace reports whether err says that the disk, or the user's quota of it,
// is full.
func IsNoSpace(err error) bool {
	for _, e := range noSpace {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
