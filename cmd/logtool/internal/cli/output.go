package cli

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Output is where results go: text for people or one JSON object per line. It
// buffers; the end of the run flushes it, and so does whatever is said on
// stderr. A write error is kept and returned by every later call.
type Output struct {
	w      *bufio.Writer
	format string // table, json, or raw where a command has it
	color  bool
	header bool
	bytes  bool
	// lineFlush hands on each line at once, for a person who watches.
	lineFlush bool
	flushed   time.Time // lineDone has handed on a line
	object    Object
}

// JSON reports whether results are to be JSON objects.
func (o *Output) JSON() bool { return o.format == "json" }

// Raw reports whether bytes are wanted as they are, where a command has that.
func (o *Output) Raw() bool { return o.format == "raw" }

// Write adds bytes as they are.
func (o *Output) Write(p []byte) (int, error) { return o.w.Write(p) }

// Flush hands on what was written so far.
func (o *Output) Flush() error { return o.w.Flush() }

// Linef writes a line of text. What args say is from a file perhaps, or the name of one:
// see visible.
func (o *Output) Linef(format string, args ...any) error {
	shown := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case painted:
			shown[i] = arg
		case string:
			shown[i] = visible(arg)
		case error:
			shown[i] = visible(arg.Error())
		case fmt.Stringer:
			shown[i] = visible(arg.String())
		default: // a number
			shown[i] = arg
		}
	}
	fmt.Fprintf(o.w, format, shown...)
	return o.endLine()
}

func (o *Output) endLine() error {
	o.w.WriteByte('\n')
	return o.lineDone()
}

// lineDone hands on a line that was written, if a person is waiting for it. The first
// one, and any that comes after a pause, is handed on in any case: who reads a pipe
// should not wait for the rest of a large log.
func (o *Output) lineDone() error {
	if o.lineFlush {
		return o.w.Flush()
	}
	if now := time.Now(); now.Sub(o.flushed) > lineWait {
		o.flushed = now
		return o.w.Flush()
	}
	_, err := o.w.Write(nil)
	return err
}

// lineWait is how long lines may wait for the ones behind them.
const lineWait = 250 * time.Millisecond

// Object begins a JSON object of a type; Emit ends and writes it. There is one
// at a time, and its memory is used again.
func (o *Output) Object(kind string) *Object { return o.object.begin(kind) }

// Emit writes the object that Object began, on a line of its own.
func (o *Output) Emit(obj *Object) error {
	o.w.Write(obj.end())
	return o.endLine()
}

// Size is a number of bytes for people, or for machines with --bytes.
func (o *Output) Size(n int64) string {
	if o.bytes {
		return strconv.FormatInt(n, 10)
	}
	return sizeText(n)
}

// A Style is how a word may stand out. It only ever repeats what the word says.
type Style string

const (
	Good Style = "32"
	Bad  Style = "31"
	Dim  Style = "2"
	Head Style = "1"
)

// painted is text that a terminal may be shown as it is.
type painted string

// Paint returns s, made visible, in a style, if colour is wanted.
func (o *Output) Paint(style Style, s string) painted {
	s = visible(s)
	if !o.color || s == "" {
		return painted(s)
	}
	return painted("\x1b[" + string(style) + "m" + s + "\x1b[0m")
}

// Column is a column of a table.
type Column struct {
	Name  string
	Right bool // aligned right, as numbers are
	Width int  // at least so wide; for tables that are not kept, see Stream
}

// Left is a column of text, Right one of numbers.
func Left(name string) Column  { return Column{Name: name} }
func Right(name string) Column { return Column{Name: name, Right: true} }

// Wide is the column with a least width.
func (c Column) Wide(width int) Column {
	c.Width = width
	return c
}

// Table is rows of text, aligned. It keeps them until Flush to know how wide
// columns are, unless Stream was called.
type Table struct {
	out     *Output
	columns []Column
	rows    [][]cell
	stream  bool
	plain   bool // without a header
}

// A cell of a table: text, and what a terminal shows of it.
type cell struct {
	text  string
	style Style
}

// Styled is a cell that stands out.
func Styled(style Style, text string) any { return cell{text, style} }

// Table begins a table. It is not for JSON output.
func (o *Output) Table(columns ...Column) *Table {
	t := &Table{out: o, columns: columns}
	for i := range t.columns {
		t.columns[i].Width = max(t.columns[i].Width, utf8.RuneCountInString(t.columns[i].Name))
	}
	return t
}

// Stream writes every row at once from here on, so that the first result is
// seen early and memory does not follow their number. A cell that is wider than
// its column makes it as wide for the rows that follow.
func (t *Table) Stream() *Table {
	t.stream = true
	t.writeHeader()
	return t
}

// Plain leaves out the header: the first column names things.
func (t *Table) Plain() *Table {
	t.plain = true
	return t
}

// Row adds a row. Cells are strings, which are made visible, integers or Styled. There
// may be fewer than columns, and one more, a remark.
func (t *Table) Row(cells ...any) error {
	row := make([]cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case cell:
			row[i] = c
		case string:
			row[i] = cell{text: c}
		default:
			row[i] = cell{text: fmt.Sprint(c)}
		}
		row[i].text = visible(row[i].text)
	}
	for i, c := range row {
		// Nothing follows the last cell, so text there may be of any length.
		if i < len(row)-1 || i < len(t.columns) && t.columns[i].Right {
			t.columns[i].Width = max(t.columns[i].Width, utf8.RuneCountInString(c.text))
		}
	}
	if t.stream {
		return t.writeRow(row)
	}
	t.rows = append(t.rows, row)
	return nil
}

// Flush writes the rows that were kept.
func (t *Table) Flush() error {
	if !t.stream {
		t.writeHeader()
	}
	for _, row := range t.rows {
		t.writeRow(row)
	}
	t.rows = nil
	_, err := t.out.w.Write(nil)
	return err
}

func (t *Table) writeHeader() {
	if !t.out.header || t.plain {
		return
	}
	names := make([]cell, len(t.columns))
	for i, c := range t.columns {
		names[i] = cell{c.Name, Head}
	}
	t.writeRow(names)
}

// writeRow pads between columns and leaves nothing behind the last one.
func (t *Table) writeRow(row []cell) error {
	pending := 0
	for i, c := range row {
		column := Column{}
		if i < len(t.columns) {
			column = t.columns[i]
		}
		gap := column.Width - utf8.RuneCountInString(c.text)
		before, after := 0, max(gap, 0)
		if column.Right {
			before, after = after, 0
		}
		if c.text != "" {
			t.out.w.WriteString(strings.Repeat(" ", pending+before))
			t.out.w.WriteString(string(t.out.Paint(c.style, c.text)))
			pending = 0
		} else {
			pending += before
		}
		pending += after + 2
	}
	return t.out.endLine()
}

func newOutput(w io.Writer) *Output {
	b := bufio.NewWriterSize(w, 64<<10)
	return &Output{w: b, format: "table", header: true, object: Object{w: b}}
}
