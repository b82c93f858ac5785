package seglog_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/seglog/seglog"
	"github.com/stretchr/testify/require"
)

// Every category of errors has the code that a broker answers with, or none on
// purpose: opening, truncating and settings are no requests of clients.
func TestEveryErrorHasItsKafkaCode(t *testing.T) {
	rows := map[string]struct {
		err       error
		code      int16
		name      string
		retriable bool
	}{
		"ErrOffsetOutOfRange":     {seglog.ErrOffsetOutOfRange, 1, "OFFSET_OUT_OF_RANGE", false},
		"ErrNoRecord":             {seglog.ErrNoRecord, 1, "OFFSET_OUT_OF_RANGE", false},
		"ErrCorrupt":              {seglog.ErrCorrupt, 2, "CORRUPT_MESSAGE", true},
		"ErrMessageTooLarge":      {seglog.ErrMessageTooLarge, 10, "MESSAGE_TOO_LARGE", false},
		"ErrSetTooLarge":          {seglog.ErrSetTooLarge, 18, "RECORD_LIST_TOO_LARGE", false},
		"ErrInvalidTimestamp":     {seglog.ErrInvalidTimestamp, 32, "INVALID_TIMESTAMP", false},
		"ErrOutOfOrderSequence":   {seglog.ErrOutOfOrderSequence, 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", false},
		"ErrInvalidProducerEpoch": {seglog.ErrInvalidProducerEpoch, 47, "INVALID_PRODUCER_EPOCH", false},
		"ErrInvalidTxnState":      {seglog.ErrInvalidTxnState, 48, "INVALID_TXN_STATE", false},
		"ErrNoTransaction":        {seglog.ErrNoTransaction, 48, "INVALID_TXN_STATE", false},
		"ErrCoordinatorFenced":    {seglog.ErrCoordinatorFenced, 52, "TRANSACTION_COORDINATOR_FENCED", false},
		"ErrClosed":               {seglog.ErrClosed, 56, "KAFKA_STORAGE_ERROR", true},
		"ErrReadOnly":             {seglog.ErrReadOnly, 56, "KAFKA_STORAGE_ERROR", true},
		"ErrFailed":               {seglog.ErrFailed, 56, "KAFKA_STORAGE_ERROR", true},
		"ErrNoSpace":              {seglog.ErrNoSpace, 56, "KAFKA_STORAGE_ERROR", true},
		"ErrLocked":               {seglog.ErrLocked, 56, "KAFKA_STORAGE_ERROR", true},
		"ErrOverlap":              {&seglog.OverlapError{}, 2, "CORRUPT_MESSAGE", true},
		"ErrFencedLeaderEpoch":    {seglog.ErrFencedLeaderEpoch, 74, "FENCED_LEADER_EPOCH", true},
		"ErrUnknownLeaderEpoch":   {seglog.ErrUnknownLeaderEpoch, 75, "UNKNOWN_LEADER_EPOCH", true},
		"ErrNoPartition":          {seglog.ErrNoPartition, 3, "UNKNOWN_TOPIC_OR_PARTITION", true},
		"ErrPartitionExists":      {seglog.ErrPartitionExists, 36, "TOPIC_ALREADY_EXISTS", false},
		"ErrUnknownProperty":      {seglog.ErrUnknownProperty, 40, "INVALID_CONFIG", false},
		"ErrInvalidBatch":         {seglog.ErrInvalidBatch, 87, "INVALID_RECORD", false},
	}
	none := []string{"ErrCompactionAborted", "ErrCompactionPaused", "ErrIdentity", "ErrTruncated", "ErrUnexpectedOffset", "ErrCommitted", "ErrMoved", "ErrNotALog", "ErrOption"}
	for name, row := range rows {
		got := seglog.KafkaErrorOf(fmt.Errorf("append: %w", row.err))
		require.Equal(t, seglog.KafkaError{Code: row.code, Name: row.name, Retriable: row.retriable}, got, name)
	}
	for _, name := range exportedErrors(t) {
		if _, ok := rows[name]; !ok {
			require.Contains(t, none, name, "it has neither a code nor a word that it has none")
		}
	}
	require.Equal(t, "NONE", seglog.KafkaErrorOf(nil).Name)
	require.Equal(t, "UNKNOWN_SERVER_ERROR", seglog.KafkaErrorOf(errors.New("something else")).Name)
	require.Equal(t, "UNKNOWN_SERVER_ERROR", seglog.KafkaErrorOf(seglog.ErrOption).Name)
	// One bad timestamp decides over whatever else is wrong (row 290), and a failed log
	// over what it was that it could not do.
	bad := &seglog.RecordsError{Records: []seglog.RecordError{{Index: 0, Err: seglog.ErrInvalidBatch}, {Index: 1, Err: seglog.ErrInvalidTimestamp}}}
	require.Equal(t, "INVALID_TIMESTAMP", seglog.KafkaErrorOf(bad).Name)
	require.Equal(t, "KAFKA_STORAGE_ERROR", seglog.KafkaErrorOf(fmt.Errorf("%w: %w", seglog.ErrFailed, seglog.ErrCorrupt)).Name)
}

// exportedErrors are the names of the package's sentinel errors, from its source.
func exportedErrors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Err") {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}
