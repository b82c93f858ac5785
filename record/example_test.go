package record_test

import (
	"fmt"

	"github.com/seglog/seglog/record"
)

func Example() {
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Zstd})
	for _, name := range []string{"anna", "ben"} {
		err := b.Append(record.Record{Timestamp: 1700000000000, Key: []byte("name"), Value: []byte(name)})
		if err != nil {
			panic(err)
		}
	}
	encoded, err := b.Build()
	if err != nil {
		panic(err)
	}

	batch, err := record.Parse(encoded)
	if err != nil {
		panic(err)
	}
	batch.SetBaseOffset(40) // whoever appends a batch to a log says where it goes
	if err := batch.Check(); err != nil {
		panic(err)
	}
	for r, err := range batch.Records(nil) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %s=%s\n", r.Offset, r.Key, r.Value)
	}
	fmt.Println("next", batch.NextOffset())
	// Output:
	// 40 name=anna
	// 41 name=ben
	// next 42
}

// An Iterator is made once and used for every batch.
func ExampleIterator() {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 100})
	for i := range 5 {
		if err := b.Append(record.Record{Value: fmt.Append(nil, i)}); err != nil {
			panic(err)
		}
	}
	encoded, err := b.Build()
	if err != nil {
		panic(err)
	}
	batch, err := record.Parse(encoded)
	if err != nil {
		panic(err)
	}

	it := record.NewIterator(record.DecodeOptions{MaxDecompressed: 16 << 20})
	defer it.Close()
	if err := it.Reset(batch); err != nil {
		panic(err)
	}
	for ok := it.SkipTo(103); ok; ok = it.Next() {
		fmt.Println(it.Record().Offset, string(it.Record().Value))
	}
	if err := it.Err(); err != nil {
		panic(err)
	}
	// Output:
	// 103 3
	// 104 4
}

func ExampleAppendAnnotatedHeader() {
	b, err := record.Parse(record.AppendEmptyBatch(nil, record.BatchHeader{
		BaseOffset: 41022, LastOffsetDelta: 9, MaxTimestamp: 1700000000000,
		ProducerID: record.NoProducerID, ProducerEpoch: record.NoProducerEpoch, BaseSequence: record.NoSequence,
	}))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s", record.AppendAnnotatedHeader(nil, b))
	// Output:
	// 00-08: 00 00 00 00 00 00 a0 3e  # base offset 41022
	// 08-12: 00 00 00 31              # length 49 (61 in all)
	// 12-16: 00 00 00 00              # leader epoch 0
	// 16-17: 02                       # magic 2
	// 17-21: 08 b1 17 a5              # crc32c of bytes 21 onward
	// 21-23: 00 00                    # attributes: none, CreateTime
	// 23-27: 00 00 00 09              # last offset delta 9, last offset 41031
	// 27-35: ff ff ff ff ff ff ff ff  # base timestamp -1
	// 35-43: 00 00 01 8b cf e5 68 00  # max timestamp 1700000000000
	// 43-51: ff ff ff ff ff ff ff ff  # producer id -1
	// 51-53: ff ff                    # producer epoch -1
	// 53-57: ff ff ff ff              # base sequence -1
	// 57-61: 00 00 00 00              # record count 0
}
