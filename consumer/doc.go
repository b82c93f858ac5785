// Package consumer reads the partitions of a seglog.Dir.
package consumer
