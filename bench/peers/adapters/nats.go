package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seglog/seglog/bench/peers/work"
)

var natsSpec = work.Spec{
	Name: "nats-server", Module: "github.com/nats-io/nats-server/v2",
	How: "its file store cannot be made by others, so this is a whole server in this process (DontListen) with a stream of one replica, " +
		"through its in-process connection: figures include its protocol. sync_interval of 2 minutes, the default, where nothing " +
		"waits for the disk, and sync: always where it does. An append of 100 is 100 asynchronous publishes, and then their " +
		"acknowledgements; gets are direct gets; time and key go in front of the value",
	Open: openNATS,
	Notes: map[string]string{
		"time": bisected + " of ours, only of its own times of arrival", "append": "client and server", "get": "client and server",
		"scan": "an ordered consumer", "follow": "an ordered consumer",
	},
}

const natsStream, natsSubject = "log", "log"

type natsLog struct {
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
}

func openNATS(dir string, o work.Options) (work.Log, error) {
	options := &server.Options{
		ServerName: "bench", JetStream: true, StoreDir: dir, DontListen: true, NoLog: true, NoSigs: true,
		JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30, SyncAlways: o.Sync,
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	s.Start()
	l := &natsLog{server: s}
	if !s.ReadyForConnections(10 * time.Minute) {
		return nil, errors.Join(errors.New("the server does not come up"), l.Close())
	}
	if err := l.connect(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *natsLog) connect() (err error) {
	if l.conn, err = nats.Connect("", nats.InProcessServer(l.server)); err != nil {
		return err
	}
	if l.js, err = jetstream.New(l.conn, jetstream.WithPublishAsyncMaxPending(10_000)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l.stream, err = l.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: natsStream, Subjects: []string{natsSubject}, Storage: jetstream.FileStorage, AllowDirect: true,
	})
	return err
}

func (l *natsLog) Append(records []work.Record) (int64, error) {
	if len(records) == 1 {
		ack, err := l.js.Publish(context.Background(), natsSubject, appendRecord(nil, &records[0]))
		if err != nil {
			return 0, err
		}
		return int64(ack.Sequence) - 1, nil
	}
	acks := make([]jetstream.PubAckFuture, len(records))
	for i := range records {
		var err error
		if acks[i], err = l.js.PublishAsync(natsSubject, appendRecord(nil, &records[i])); err != nil {
			return 0, err
		}
	}
	base := int64(0)
	for i, ack := range acks {
		select {
		case got := <-ack.Ok():
			if i == 0 {
				base = int64(got.Sequence) - 1
			}
		case err := <-ack.Err():
			return 0, err
		}
	}
	return base, nil
}

func (l *natsLog) Bounds() (first, next int64, err error) {
	info, err := l.stream.Info(context.Background())
	if err != nil {
		return 0, 0, err
	}
	return max(0, int64(info.State.FirstSeq)-1), int64(info.State.LastSeq), nil
}

func (l *natsLog) Reader() work.Reader { return natsReader{l.stream} }

type natsReader struct{ stream jetstream.Stream }

func (r natsReader) Get(offset int64, into *work.Record) error {
	msg, err := r.stream.GetMsg(context.Background(), uint64(offset)+1)
	if err != nil {
		return err
	}
	into.Offset = int64(msg.Sequence) - 1
	return decodeRecord(msg.Data, into)
}

func (l *natsLog) Scan(from int64, f func(*work.Record) error) error {
	_, next, err := l.Bounds()
	if err != nil || from >= next {
		return err
	}
	return l.consume(context.Background(), from, next, f)
}

func (l *natsLog) Follow(ctx context.Context, from int64, f func(*work.Record) error) error {
	err := l.consume(ctx, from, 1<<62, f)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// consume reads what lies between two offsets.
func (l *natsLog) consume(ctx context.Context, from, to int64, f func(*work.Record) error) error {
	consumer, err := l.js.OrderedConsumer(ctx, natsStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(from) + 1,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	var r work.Record
	for r.Offset = from - 1; r.Offset+1 < to; {
		msg, err := messages.Next()
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if got := int64(meta.Sequence.Stream) - 1; got != r.Offset+1 && r.Offset >= from {
			return fmt.Errorf("offset %d behind %d", got, r.Offset)
		}
		r.Offset = int64(meta.Sequence.Stream) - 1
		if err := decodeRecord(msg.Data(), &r); err != nil {
			return err
		}
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

func (l *natsLog) FirstAt(time int64) (offset, at int64, err error) { return bisect(l, time) }

func (l *natsLog) DropBefore(offset int64) error {
	return l.stream.Purge(context.Background(), jetstream.WithPurgeSequence(uint64(offset)+1))
}

func (l *natsLog) Close() error {
	if l.conn != nil {
		l.conn.Close()
	}
	l.server.Shutdown()
	l.server.WaitForShutdown()
	return nil
}
