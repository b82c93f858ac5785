package checkpoint

import "encoding/base64"

// A UUID is the id of a topic or a log directory. The zero value stands for
// none; Kafka gives it to nobody.
type UUID [16]byte

const uuidText = 22 // characters: 16 bytes in base64 without padding

// ParseUUID reads the 22 characters that String writes. It is false for
// anything else, padding included. (Uuid.java also takes padding and stray bits
// in the last character; it writes neither.)
func ParseUUID(s string) (id UUID, ok bool) {
	if len(s) != uuidText {
		return UUID{}, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(id[:], []byte(s))
	if err != nil || n != len(id) {
		return UUID{}, false
	}
	return id, true
}

// String returns the id in URL-safe base64, 22 characters, as Kafka prints it.
func (id UUID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero reports whether id is the zero value.
func (id UUID) IsZero() bool { return id == UUID{} }
