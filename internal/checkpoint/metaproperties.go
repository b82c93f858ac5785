package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// MetaProperties is the content of meta.properties, which tells whose a log
// directory is (MetaProperties.java). The keys depend on the version:
//
//	key            version 0            version 1
//	version        0, or missing        1
//	cluster.id     optional             required
//	broker.id      optional number      not used
//	node.id        not used             required number
//	directory.id   optional UUID        optional UUID
//
// Kafka writes version 1 since KRaft. Other keys are skipped.
type MetaProperties struct {
	Version     int
	ClusterID   string // "" if there is none
	NodeID      int32  // broker.id or node.id; NoNodeID if there is none
	DirectoryID UUID   // zero if there is none
}

// NoNodeID is the NodeID of a directory that does not tell it.
const NoNodeID int32 = -1

// ParseMetaProperties reads meta.properties. Whatever is wrong with it is a
// *CorruptError.
func ParseMetaProperties(data []byte) (MetaProperties, error) {
	properties, err := ParseProperties(data)
	if err != nil {
		return MetaProperties{}, err
	}
	m := MetaProperties{NodeID: NoNodeID, ClusterID: properties["cluster.id"]}
	nodeKey := "broker.id"
	if text, found := properties["version"]; found {
		switch strings.TrimSpace(text) {
		case "0":
		case "1":
			m.Version, nodeKey = 1, "node.id"
		default:
			return MetaProperties{}, &CorruptError{Expected: "version 0 or 1", Found: text}
		}
	}
	node, found := properties[nodeKey]
	if found {
		id, err := strconv.ParseInt(node, 10, 32)
		if err != nil {
			return MetaProperties{}, &CorruptError{Expected: nodeKey + " as a number", Found: node}
		}
		m.NodeID = int32(id)
	}
	if m.Version > 0 && !found {
		return MetaProperties{}, &CorruptError{Expected: nodeKey}
	}
	if _, found := properties["cluster.id"]; m.Version > 0 && !found {
		return MetaProperties{}, &CorruptError{Expected: "cluster.id"}
	}
	if text, found := properties["directory.id"]; found {
		id, ok := ParseUUID(text)
		if !ok {
			return MetaProperties{}, &CorruptError{Expected: "directory.id as a UUID", Found: text}
		}
		m.DirectoryID = id
	}
	return m, nil
}

// ReadMetaProperties is ParseMetaProperties of a file. A missing file is
// fs.ErrNotExist.
func ReadMetaProperties(fsys vfs.FS, path string) (MetaProperties, error) {
	data, err := ReadFile(fsys, path, maxSmallFile)
	if err != nil {
		return MetaProperties{}, err
	}
	m, err := ParseMetaProperties(data)
	return m, In(path, err)
}

// AppendMetaProperties appends meta.properties of version 1 to dst, dated as Java
// does it (PropertiesUtils.java). A node id below 0 and a cluster id with other
// characters than those of a topic are ErrInvalid.
func AppendMetaProperties(dst []byte, m MetaProperties, now time.Time) ([]byte, error) {
	if m.Version != 1 || m.NodeID < 0 || layout.CheckTopic(m.ClusterID) != nil {
		return nil, fmt.Errorf("meta.properties of version %d, node %d, cluster %q: %w", m.Version, m.NodeID, m.ClusterID, ErrInvalid)
	}
	dst = fmt.Appendf(dst, "#\n#%s\nnode.id=%d\n", now.Format("Mon Jan 02 15:04:05 MST 2006"), m.NodeID)
	if !m.DirectoryID.IsZero() {
		dst = fmt.Appendf(dst, "directory.id=%s\n", m.DirectoryID)
	}
	return fmt.Appendf(dst, "version=1\ncluster.id=%s\n", m.ClusterID), nil
}

// WriteMetaProperties makes m the durable content of meta.properties. If writing
// fails the old file is intact.
func WriteMetaProperties(fsys vfs.FS, path string, m MetaProperties, now time.Time) error {
	data, err := AppendMetaProperties(nil, m, now)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return vfs.WriteFileAtomic(fsys, path, data)
}
