//go:build !linux

package work

func runFloors(Job) (map[string]float64, error) {
	return nil, lacking("measured on Linux only")
}
