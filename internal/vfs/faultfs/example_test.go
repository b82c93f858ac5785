package faultfs_test

import (
	"fmt"
	"os"
	"syscall"

	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
)

// The disk is full in the middle of the second write.
func ExampleFS_FailAfter() {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	disk.FailAfter(faultfs.Op(faultfs.Write).Name("*.log").Nth(2), 3, syscall.ENOSPC)

	f, _ := disk.OpenFile("0.log", os.O_RDWR|os.O_CREATE, 0o644)
	fmt.Println(f.WriteAt([]byte("first"), 0))
	fmt.Println(f.WriteAt([]byte("second"), 5))
	fmt.Println(f.WriteAt([]byte("third"), 8))
	// Output:
	// 5 <nil>
	// 3 write 0.log: no space left on device
	// 5 <nil>
}
