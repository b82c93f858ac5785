package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seglog/seglog/bench/peers/kafka"
)

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"job"}, {"log", "-nonsense"}} {
		if err := dispatch(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestReportsShowMediansSpreadAndRatio(t *testing.T) {
	var out bytes.Buffer
	c := &common{}
	cleaner := kafka.CleanerReport{
		Keys: 10, Records: 1000, Bytes: 100_000, Seglog: []float64{3e6, 2e6, 4e6}, Kafka: []float64{1.2e6, 1e6, 0.8e6},
		SeglogCold: 1.5e6, KafkaCold: 0.3e6, KafkaPeakRSS: 300 << 20, Survivors: kafka.Survivors{Records: 10, Hash: "abc"},
	}
	index := kafka.IndexReport{Entries: 2048, Seglog: []float64{30, 20, 10}, Kafka: []float64{50, 55}, JMH: "1.37"}
	for _, err := range []error{c.printCleaner(&out, cleaner), c.printIndex(&out, index)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = `1000 records over 10 keys, 0.1 MB
  seglog                    3000000 records/s   300.0 MB/s  (2000000 to 4000000)
  Kafka's cleaner           1000000 records/s   100.0 MB/s  (800000 to 1200000)
  seglog, first round       1500000 records/s   150.0 MB/s
  Kafka, first of a JVM      300000 records/s    30.0 MB/s
  seglog / Kafka: 3.00x; the JVM had up to 300 MiB
  both leave the same 10 records, by seglog's reader and by Kafka's: sha256 abc

index of 2048 entries, 16 KiB
  seglog                     20.0 ns/look-up  (10.0 to 30.0)
  Kafka, JMH 1.37            52.5 ns/look-up  (50.0 to 55.0)
  Kafka / seglog: 2.62x, the same answers

`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	c.json = true
	if err := c.printIndex(&out, index); err != nil || !strings.Contains(out.String(), `"ratio":2.625`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}
