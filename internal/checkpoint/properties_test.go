package checkpoint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/vfs"
)

// The expectations are what java.util.Properties.load makes of the same text.
func TestParsePropertiesReadsAsJavaDoes(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]string
	}{
		{"empty", "", map[string]string{}},
		{"equals sign", "a=1", map[string]string{"a": "1"}},
		{"colon", "a:1", map[string]string{"a": "1"}},
		{"blank", "a 1", map[string]string{"a": "1"}},
		{"blanks and one separator", " \ta \f=\t 1 ", map[string]string{"a": "1 "}},
		{"second separator belongs to the value", "a==1\nb:=2\nc = : 3", map[string]string{"a": "=1", "b": "=2", "c": ": 3"}},
		{"comments and blank lines", "# a=1\n  ! b=2\n\n \t\nc=3 # d\n", map[string]string{"c": "3 # d"}},
		{"a comment is not continued", "# a \\\nb=2\n", map[string]string{"b": "2"}},
		{"line ends", "a=1\rb=2\r\nc=3\n\rd=4", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}},
		{"continued", "a=1, \\\n   2, \\\r\n\t3", map[string]string{"a": "1, 2, 3"}},
		{"continued by a blank line", "a=1\\\n\nb=2", map[string]string{"a": "1", "b": "2"}},
		{"continued by a comment sign", "a=1\\\n#2", map[string]string{"a": "1#2"}},
		{"continued key", "ab\\\ncd=1", map[string]string{"abcd": "1"}},
		{"backslash alone on a line", "\\\n#a\nb=1", map[string]string{"b": "1"}},
		{"backslash alone in the text", `\`, map[string]string{"": ""}},
		{"even backslashes do not continue", "a=1\\\\\nb=2", map[string]string{"a": "1\\", "b": "2"}},
		{"odd backslashes continue", "a=1\\\\\\\nb=2", map[string]string{"a": "1\\b=2"}},
		{"backslash at the end", "a=1\\", map[string]string{"a": "1"}},
		{"no value", "a\nb=\nc:", map[string]string{"a": "", "b": "", "c": ""}},
		{"no key", "=1", map[string]string{"": "1"}},
		{"last one counts", "a=1\na=2", map[string]string{"a": "2"}},
		{"escaped separators in a key", `a\=\:\ b=1`, map[string]string{"a=: b": "1"}},
		{"escapes", `a=\t\n\r\f\\\"\x\u00e4\u00E4`, map[string]string{"a": "\t\n\r\f\\\"xää"}},
		{"escaped blank before the value", `a=\ 1`, map[string]string{"a": " 1"}},
		{"pair of surrogates", `a=\ud83d\ude00`, map[string]string{"a": "\U0001F600"}},
		{"bytes are latin 1", "a=\xe4", map[string]string{"a": "ä"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseProperties([]byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParsePropertiesRefusesBadUnicodeEscapes(t *testing.T) {
	for _, text := range []string{`a=\u`, `a=\u12`, `a=\u12g4`, `\u+123=1`, `a=\u 123`} {
		_, err := ParseProperties([]byte("x=1\n" + text + "\n"))
		require.ErrorIs(t, err, ErrCorrupt, text)
		require.ErrorContains(t, err, "line 2: ")
	}
}

// TestParsePropertiesUndoesStore: any key and value come back from the text that
// java.util.Properties.store writes of them.
func TestParsePropertiesUndoesStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "properties")
		var text strings.Builder
		text.WriteString("#\n#Thu Jan 01 00:00:00 UTC 1970\n")
		for key, value := range want {
			text.WriteString(escapeAll(key) + "=" + escapeAll(value) + "\n")
		}
		got, err := ParseProperties([]byte(text.String()))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func escapeAll(s string) string {
	var text strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&text, `\u%04X`, unit)
	}
	return text.String()
}

// FuzzParseProperties: never panics; takes no more properties than there are
// lines; what parses comes back from its escaped form.
func FuzzParseProperties(f *testing.F) {
	for _, seed := range []string{
		"", "a=1", "# c\na\\\n =\\u00e4\n", "\\", "a\\", "a=\\u12", "=\r\n:\r=", "\\\n\\\n\\",
		"#\n#Thu Jan 01 00:00:00 UTC 1970\nversion=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseProperties(data)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.LessOrEqual(t, len(got), 1+strings.Count(string(data), "\n")+strings.Count(string(data), "\r"))
		var text strings.Builder
		for key, value := range got {
			text.WriteString(escapeAll(key) + "=" + escapeAll(value) + "\n")
		}
		again, err := ParseProperties([]byte(text.String()))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func TestParseMetaPropertiesFollowsTheVersion(t *testing.T) {
	id := UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	tests := []struct {
		name, text string
		want       MetaProperties
	}{
		{"kraft", "#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\nversion=1\n",
			MetaProperties{1, "MkU3OEVBNTcwNTJENDM2Qg", 1, id}},
		{"kraft before directory ids", "version=1\nnode.id=0\ncluster.id=c\nbroker.id=9\n", MetaProperties{Version: 1, ClusterID: "c"}},
		{"zookeeper", "version=0\nbroker.id=7\nnode.id=9\ncluster.id=c\n", MetaProperties{ClusterID: "c", NodeID: 7}},
		{"nothing", "", MetaProperties{NodeID: NoNodeID}},
		{"blanks behind the version", "version=0 \n", MetaProperties{NodeID: NoNodeID}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "meta.properties")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
			got, err := ReadMetaProperties(vfs.OS, path)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseMetaPropertiesNamesWhatIsWrong(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"later version", "version=2", `want version 0 or 1, found "2"`},
		{"no version number", "version=x", `want version 0 or 1, found "x"`},
		{"no node id", "version=1\ncluster.id=c", `want node.id, found ""`},
		{"no cluster id", "version=1\nnode.id=1", `want cluster.id, found ""`},
		{"node id not a number", "version=1\nnode.id=one", `want node.id as a number, found "one"`},
		{"broker id out of range", "broker.id=2147483648", `want broker.id as a number, found "2147483648"`},
		{"directory id too short", "directory.id=AAECAwQFBgcICQoLDA0ODw==", `want directory.id as a UUID, found "AAECAwQFBgcICQoLDA0ODw=="`},
		{"bad escape", `a=\u`, `line 1: want four hex digits after each \u, found "\\u"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "meta.properties")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
			_, err := ReadMetaProperties(vfs.OS, path)
			require.ErrorIs(t, err, ErrCorrupt)
			require.EqualError(t, err, path+": "+tt.want)
		})
	}
	_, err := ReadMetaProperties(vfs.OS, filepath.Join(t.TempDir(), "meta.properties"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
