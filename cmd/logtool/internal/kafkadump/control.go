package kafkadump

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/seglog/seglog/record"
)

// appendControl appends what the tool says of a control record. Those of a KRaft
// cluster are messages of which it prints the JSON form (ControlRecordUtils.java,
// and the schemas in LeaderChangeMessage.json and its neighbours).
func appendControl(line []byte, rec *record.Record) ([]byte, error) {
	if len(rec.Key) < 4 {
		return line, exceptionf(invalidRecord,
			"Invalid value size found for end control record key. Must have at least 4 bytes, but found only %d", len(rec.Key))
	}
	if version := int16(be.Uint16(rec.Key)); version < 0 {
		return line, exceptionf(invalidRecord, "Invalid version found for control record: %d. May indicate data corruption", version)
	}
	stored := int16(be.Uint16(rec.Key[2:]))
	m := message{b: rec.Value}
	switch t := record.ControlType(stored); t {
	case record.Abort, record.Commit:
		return appendEndMarker(line, t, rec.Value)
	case record.LeaderChange:
		line = m.write(line, " LeaderChange: ", (*message).leaderChange)
	case record.SnapshotHeader:
		line = m.write(line, " SnapshotHeader ", (*message).snapshotHeader)
	case record.SnapshotFooter:
		line = m.write(line, " SnapshotFooter ", (*message).snapshotFooter)
	case record.KRaftVersion:
		line = m.write(line, " KRaftVersion ", (*message).kraftVersion)
	case record.KRaftVoters:
		line = m.write(line, " KRaftVoters ", (*message).kraftVoters)
	default:
		line = append(line, " controlType: UNKNOWN("...)
		line = strconv.AppendInt(line, int64(stored), 10)
		line = append(line, ')')
	}
	return line, m.err
}

func appendEndMarker(line []byte, t record.ControlType, value []byte) ([]byte, error) {
	if len(value) < 6 {
		return line, exceptionf(invalidRecord,
			"Invalid value size found for end transaction marker. Must have at least 6 bytes, but found only %d", len(value))
	}
	if version := int16(be.Uint16(value)); version < 0 {
		return line, exceptionf(invalidRecord, "Invalid version found for end transaction marker: %d. May indicate data corruption", version)
	}
	line = append(line, " endTxnMarker: "...)
	line = append(line, t.String()...)
	line = append(line, " coordinatorEpoch: "...)
	return strconv.AppendInt(line, int64(int32(be.Uint32(value[2:]))), 10), nil
}

// message reads the bytes of a message of Kafka's protocol, in the flexible
// encoding (KIP-482), and writes JSON while it does. After an error it reads
// zeros.
type message struct {
	b    []byte
	json []byte
	err  error
}

// write appends a title and the JSON that fields writes, or nothing if the
// message is bad.
func (m *message) write(line []byte, title string, fields func(*message)) []byte {
	fields(m)
	if m.err != nil {
		return line
	}
	return append(append(line, title...), m.json...)
}

func (m *message) leaderChange() {
	m.object(func() {
		m.field("version", m.int16)
		m.field("leaderId", m.int32)
		m.field("voters", m.voterIDs)
		m.field("grantingVoters", m.voterIDs)
	})
}

func (m *message) voterIDs() {
	m.array(func() {
		m.object(func() { m.field("voterId", m.int32) })
	})
}

func (m *message) snapshotHeader() {
	m.object(func() {
		m.field("version", m.int16)
		m.field("lastContainedLogTimestamp", m.int64)
	})
}

func (m *message) snapshotFooter() {
	m.object(func() { m.field("version", m.int16) })
}

func (m *message) kraftVersion() {
	m.object(func() {
		m.field("version", m.int16)
		m.field("kRaftVersion", m.int16)
	})
}

func (m *message) kraftVoters() {
	m.object(func() {
		m.field("version", m.int16)
		m.field("voters", func() { m.array(m.voter) })
	})
}

func (m *message) voter() {
	m.object(func() {
		m.field("voterId", m.int32)
		m.field("voterDirectoryId", m.uuid)
		m.field("endpoints", func() { m.array(m.endpoint) })
		m.field("kRaftVersionFeature", func() {
			m.object(func() {
				m.field("minSupportedVersion", m.int16)
				m.field("maxSupportedVersion", m.int16)
			})
		})
	})
}

func (m *message) endpoint() {
	m.object(func() {
		m.field("name", m.string)
		m.field("host", m.string)
		m.field("port", m.uint16)
	})
}

// object writes a struct, which ends in tagged fields. None has a meaning here.
func (m *message) object(fields func()) {
	m.json = append(m.json, '{')
	fields()
	m.json = append(m.json, '}')
	for tags := m.uvarint(); tags > 0 && m.err == nil; tags-- {
		m.uvarint()
		m.take(m.uvarint())
	}
}

func (m *message) field(name string, value func()) {
	m.comma('{')
	m.json = append(m.json, '"')
	m.json = append(m.json, name...)
	m.json = append(m.json, '"', ':')
	value()
}

// array writes a compact array. Its length is one more than that, 0 for null.
func (m *message) array(element func()) {
	n := m.uvarint()
	switch {
	case n == 0:
		m.fail("a list is null")
		return
	case n-1 > uint64(len(m.b)):
		m.fail("Tried to allocate a collection of size " + strconv.FormatUint(n-1, 10) +
			", but there are only " + strconv.Itoa(len(m.b)) + " bytes remaining.")
		return
	}
	m.json = append(m.json, '[')
	for ; n > 1 && m.err == nil; n-- {
		m.comma('[')
		element()
	}
	m.json = append(m.json, ']')
}

// comma parts what follows from what came before, if anything did.
func (m *message) comma(open byte) {
	if m.json[len(m.json)-1] != open {
		m.json = append(m.json, ',')
	}
}

func (m *message) int16()  { m.number(int64(int16(be.Uint16(m.take(2))))) }
func (m *message) uint16() { m.number(int64(be.Uint16(m.take(2)))) }
func (m *message) int32()  { m.number(int64(int32(be.Uint32(m.take(4))))) }
func (m *message) int64()  { m.number(int64(be.Uint64(m.take(8)))) }

func (m *message) number(v int64) { m.json = strconv.AppendInt(m.json, v, 10) }

func (m *message) uuid() {
	m.json = append(m.json, '"')
	m.json = base64.RawURLEncoding.AppendEncode(m.json, m.take(16))
	m.json = append(m.json, '"')
}

func (m *message) string() {
	n := m.uvarint()
	if n == 0 {
		m.fail("a string is null")
		return
	}
	m.json = appendJSONString(m.json, appendJavaString(nil, m.take(n-1)))
}

// appendJSONString appends UTF-8 text as Jackson writes it.
func appendJSONString(dst, s []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	dst = append(dst, '"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			if c < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}

// uvarint reads an unsigned varint of at most five bytes.
func (m *message) uvarint() uint64 {
	v, n := binary.Uvarint(m.b[:min(len(m.b), 5)])
	if n <= 0 {
		m.fail("a varint is cut off")
		return 0
	}
	m.b = m.b[n:]
	return v
}

// take returns the next n bytes. If there are fewer it returns zeros, as many
// as any number takes.
func (m *message) take(n uint64) []byte {
	if m.err != nil || n > uint64(len(m.b)) {
		m.fail("")
		return make([]byte, 16)
	}
	b := m.b[:n]
	m.b = m.b[n:]
	return b
}

func (m *message) fail(detail string) {
	if m.err != nil {
		return
	}
	if detail == "" {
		m.err = &Exception{Class: "java.nio.BufferUnderflowException"}
	} else {
		m.err = &Exception{"java.lang.RuntimeException", detail}
	}
	m.b = nil
}
