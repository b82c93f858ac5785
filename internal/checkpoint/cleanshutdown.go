package checkpoint

import (
	"encoding/json"
	"fmt"

	"github.com/seglog/seglog/internal/vfs"
)

// ReadCleanShutdown reads .kafka_cleanshutdown (CleanShutdownFileHandler.java):
//
//	{"version":0,"brokerEpoch":5}            no newline
//
// That the file exists says that the last shutdown was clean. The epoch is a
// bonus: a file that is empty, as older brokers left it, or damaged has known
// false and no error. A missing file is fs.ErrNotExist.
func ReadCleanShutdown(fsys vfs.FS, path string) (brokerEpoch int64, known bool, err error) {
	data, err := vfs.ReadFile(fsys, path, maxSmallFile)
	if err != nil {
		return 0, false, err
	}
	var content struct {
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if json.Unmarshal(data, &content) != nil || content.BrokerEpoch == nil {
		return 0, false, nil
	}
	return *content.BrokerEpoch, true, nil
}

// WriteCleanShutdown creates .kafka_cleanshutdown. It comes last in a shutdown:
// a broker that finds it does not look for damage.
func WriteCleanShutdown(fsys vfs.FS, path string, brokerEpoch int64) error {
	return vfs.WriteFileAtomic(fsys, path, fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, brokerEpoch))
}
