package crashfs_test

import (
	"fmt"
	"os"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
)

// Three bytes are durable, four more are written, and the power goes out.
func ExampleFS_States() {
	disk := crashfs.New(crashfs.Options{})
	f, _ := disk.OpenFile("file", os.O_RDWR|os.O_CREATE, 0o644)
	_, _ = f.WriteAt([]byte("old"), 0)
	_ = f.Sync()
	_ = disk.SyncDir("/")
	_, _ = f.WriteAt([]byte(" new"), 3)

	for state := range disk.States(10, 1) {
		content, _ := vfs.ReadFile(state.FS(), "file", 100)
		fmt.Printf("%q\n", content)
	}
	// Output:
	// "old"
	// "old new"
	// "old\x00\x00\x00\x00"
}
