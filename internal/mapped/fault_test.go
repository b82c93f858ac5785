package mapped

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyFaultsBecomeErrors(t *testing.T) {
	table, _ := filled(t, 3, Options{})
	require.PanicsWithValue(t, "a bug", func() { _ = table.Read(func(View) { panic("a bug") }) })
	require.Panics(t, func() { _ = table.Read(func(v View) { v.Int(table.capacity, key) }) }, "behind the mapping")
	require.Panics(t, func() { _ = table.Read(func(View) { *(*int)(nil) = 1 }) }, "a nil pointer")
	require.False(t, table.Faulted())
	requireFilled(t, table, 3)
}

func TestCallersKeepTheirPanicOnFault(t *testing.T) {
	table, _ := filled(t, 3, Options{})
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(false))
	for _, before := range []bool{false, true} {
		for _, call := range []func() error{
			func() error { return table.Append(100, 0, 0) },
			func() error { return table.Read(func(View) {}) },
			func() error { return table.guarded(func() {}) },
			func() error { return table.Read(func(View) { panic(fakeFault{}) }) },
			func() error { return table.guarded(func() { panic(fakeFault{}) }) },
		} {
			debug.SetPanicOnFault(before)
			table.fault.Store(nil)
			if err := call(); err != nil {
				require.ErrorIs(t, err, ErrFault)
			}
			require.Equal(t, before, debug.SetPanicOnFault(false))
		}
	}
}

// fakeFault looks like what the runtime panics with, at an unknown address.
type fakeFault struct{}

var _ memoryFault = fakeFault{}

func (fakeFault) Error() string { return "unexpected fault address" }
func (fakeFault) RuntimeError() {}
func (fakeFault) Addr() uintptr { return 0 }

func TestFaultsNameFileAndPosition(t *testing.T) {
	table, path := filled(t, 3, Options{})
	err := table.Read(func(View) { panic(fakeFault{}) })
	require.Equal(t, &FaultError{File: path, Position: -1, Reason: faultReason}, err)
	require.EqualError(t, err, path+": mapped memory fault: the file was cut short or its disk failed")

	require.EqualError(t, &FaultError{File: "0.index", Position: 8192, Reason: faultReason},
		"0.index: position 8192: mapped memory fault: the file was cut short or its disk failed")
}
