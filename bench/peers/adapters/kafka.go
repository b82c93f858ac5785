package adapters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/seglog/seglog/bench/peers/kafka"
	"github.com/seglog/seglog/bench/peers/work"
)

// kafkaSpec is Kafka's UnifiedLog in a JVM, which package kafka starts: it times, warms up
// and checks by itself.
var kafkaSpec = work.Spec{
	Name: "kafka", Segments: true,
	How: "org.apache.kafka.storage.internals.log.UnifiedLog of the release's jars in a JVM with the options of Kafka's start scripts, " +
		"a topic's default settings, flush.messages=1 where appends wait for the disk. Records are encoded in the timed part, as " +
		"producer and broker would; each process is warmed up before it is timed. See bench/peers/kafka/README.md",
	Version: func() string { return "Apache Kafka " + kafka.Version() },
	Run:     runKafka,
	Notes: map[string]string{
		"fill": "memory is that of a JVM with a heap of 1 GiB", "get": "Java is warmed up", "open": "median of opens in a warm JVM",
		"drop": "until it cannot be read any more; files are removed a minute later, as by a broker",
	},
}

func runKafka(job work.Job) (map[string]float64, error) {
	if err := kafka.Available(); err != nil {
		return nil, work.Lacking(err.Error())
	}
	ctx := context.Background()
	classes, err := kafka.Build(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := classes.RunJob(ctx, string(text), &out); err != nil {
		return nil, err
	}
	var res work.Result
	if err := json.Unmarshal(out.Bytes(), &res); err != nil {
		return nil, err
	}
	switch {
	case res.Skipped != "":
		return nil, work.Lacking(res.Skipped)
	case res.Error != "":
		return nil, errors.New(res.Error)
	}
	return res.Figures, nil
}
