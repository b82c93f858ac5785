package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
)

func newProducersCommand(app *App) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "producers DIR",
		Short: "who has written with a producer id",
		Long: `List the idempotent and transactional producers that a log remembers, or all logs of a
log directory: a batch they send again is known by its sequence numbers. Producers that
have been silent for a day are forgotten. Nothing is written, and a writer may be at work.

LAST SEQUENCE and LAST OFFSET are those of the last record; there is none after a new
epoch has begun. OPEN SINCE is the offset at which a transaction begins that is open.`,
		Example:           "  logtool producers orders-0\n  logtool producers orders-0 -o json",
		GroupID:           groupInspect,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations:       exitStatus("0 done, 1 could not read, 2 usage, 3 a log cannot be read for damage."),
		RunE:              func(_ *cobra.Command, args []string) error { return listProducers(app, args[0], limit) },
	}
	addLimit(cmd, &limit, "producers")
	return cmd
}

// addLimit adds the flag that every command has which lists.
func addLimit(cmd *cobra.Command, limit *int, what string) {
	cmd.Flags().IntVarP(limit, "limit", "n", 0, "at most so many "+what+" (default: all)")
}

func listProducers(app *App, dir string, limit int) error {
	if limit < 0 {
		return UsageErrorf("--limit %d: want 0 or more", limit)
	}
	var producers []producerOf
	roof, err := eachLog(app, dir, func(partition string, log *seglog.Log) error {
		all, err := log.Producers()
		for _, p := range all {
			producers = append(producers, producerOf{partition, p})
		}
		return err
	})
	if producers == nil && err != nil {
		return err
	}
	if limit > 0 {
		producers = producers[:min(limit, len(producers))]
	}
	if perr := printProducers(app, roof, producers); perr != nil {
		return perr
	}
	return err
}

// producerOf is a producer of one partition of a log directory, or of a log by itself,
// which has no name here.
type producerOf struct {
	partition string
	seglog.ProducerInfo
}

func printProducers(app *App, roof bool, producers []producerOf) error {
	out := app.Out
	columns := []Column{Right("PRODUCER"), Right("EPOCH"), Right("LAST SEQUENCE"), Right("LAST OFFSET"), Left("LAST TIME"),
		Right("COORDINATOR EPOCH"), Right("OPEN SINCE")}
	table := out.Table(withPartition(roof, columns)...)
	for _, p := range producers {
		var err error
		if out.JSON() {
			obj := out.Object("producer")
			if roof {
				obj.String("partition", p.partition)
			}
			obj.Int("producer_id", p.ID).Int("epoch", int64(p.Epoch))
			optionalInt(obj, "last_sequence", int64(p.LastSequence))
			optionalInt(obj, "last_offset", p.LastOffset)
			obj.Time("last_time", p.LastTimestamp)
			optionalInt(obj, "coordinator_epoch", int64(p.CoordinatorEpoch))
			optionalInt(obj, "transaction_start", p.TransactionStart)
			err = out.Emit(obj)
		} else {
			cells := []any{p.ID, p.Epoch, orDash(int64(p.LastSequence)), orDash(p.LastOffset), timeTextSeconds(p.LastTimestamp),
				orDash(int64(p.CoordinatorEpoch)), orDash(p.TransactionStart)}
			err = table.Row(inPartition(roof, p.partition, cells)...)
		}
		if err != nil {
			return err
		}
	}
	if out.JSON() {
		return nil
	}
	return table.Flush()
}

// optionalInt adds a number of which -1 means that there is none.
func optionalInt(obj *Object, name string, n int64) {
	if n < 0 {
		obj.Null(name)
	} else {
		obj.Int(name, n)
	}
}

func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

type transactionsOptions struct {
	app   *App
	limit int
	abort int64
	yes   bool
}

func newTransactionsCommand(app *App) *cobra.Command {
	opts := transactionsOptions{app: app}
	cmd := &cobra.Command{
		Use:   "transactions DIR",
		Short: "open transactions, and aborting one",
		Long: `List the transactions of a log that have not ended, the oldest first, or of all logs of
a log directory. Readers of committed records wait for the oldest: they get nothing at
or beyond its first offset.

A transaction of a producer that is gone, and of whose coordinator nobody knows, is
called hanging. --abort PRODUCER ends it with a marker, as Kafka's kafka-transactions.sh
abort does. Be sure that nobody will commit it: the records are then not read by anyone
who reads committed ones only. A broker that has the log open must do it itself.`,
		Example:           "  logtool transactions /var/lib/kafka/data\n  logtool transactions orders-0 --abort 4711 --yes",
		GroupID:           groupInspect,
		Args:              oneArg("DIR"),
		ValidArgsFunction: completeDirs,
		Annotations: exitStatus("0 done, 1 could not read or write, or not confirmed, 2 usage, 3 a log cannot be read for\n" +
			"damage, 4 the producer has no open transaction, 5 locked by another process."),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch abort := cmd.Flags().Changed("abort"); {
			case opts.yes && !abort:
				return UsageErrorf("--yes confirms --abort")
			case abort && opts.abort < 0:
				return UsageErrorf("--abort %d: want a producer id, 0 or above", opts.abort)
			case abort:
				if _, ok, err := findLogDir(app, args[0]); err == nil && ok {
					return UsageErrorf("--abort wants the directory of one partition, and %s holds many", args[0])
				}
				return opts.end(args[0])
			}
			return opts.list(args[0])
		},
	}
	addLimit(cmd, &opts.limit, "transactions")
	cmd.Flags().Int64Var(&opts.abort, "abort", -1, "abort the open transaction of this producer id")
	cmd.Flags().BoolVar(&opts.yes, "yes", false, "really abort")
	return cmd
}

func (o *transactionsOptions) list(dir string) error {
	if o.limit < 0 {
		return UsageErrorf("--limit %d: want 0 or more", o.limit)
	}
	var open []transactionOf
	roof, err := eachLog(o.app, dir, func(partition string, log *seglog.Log) error {
		all, err := log.Transactions()
		for _, t := range all {
			open = append(open, transactionOf{partition, t})
		}
		return err
	})
	if open == nil && err != nil {
		return err
	}
	if o.limit > 0 {
		open = open[:min(o.limit, len(open))]
	}
	if perr := o.print(roof, open); perr != nil {
		return perr
	}
	return err
}

// transactionOf is likewise an open transaction.
type transactionOf struct {
	partition string
	seglog.Transaction
}

func (o *transactionsOptions) print(roof bool, open []transactionOf) error {
	out := o.app.Out
	columns := []Column{Right("PRODUCER"), Right("EPOCH"), Right("FIRST OFFSET"), Left("STARTED"), Left("LAST WRITE"), Right("AGE")}
	table := out.Table(withPartition(roof, columns)...)
	now := o.app.Now().UnixMilli()
	for _, t := range open {
		since := t.LastWrite
		if t.Started != record.NoTimestamp {
			since = t.Started
		}
		var err error
		if out.JSON() {
			obj := out.Object("transaction")
			if roof {
				obj.String("partition", t.partition)
			}
			obj.Int("producer_id", t.ProducerID).Int("epoch", int64(t.ProducerEpoch)).
				Int("first_offset", t.FirstOffset).Time("started", t.Started).Time("last_write", t.LastWrite)
			if since == record.NoTimestamp {
				obj.Null("age_ms")
			} else {
				obj.Int("age_ms", now-since)
			}
			err = out.Emit(obj)
		} else {
			cells := []any{t.ProducerID, t.ProducerEpoch, t.FirstOffset, timeTextSeconds(t.Started), timeTextSeconds(t.LastWrite), ageText(now, since)}
			err = table.Row(inPartition(roof, t.partition, cells)...)
		}
		if err != nil {
			return err
		}
	}
	if out.JSON() {
		return nil
	}
	return table.Flush()
}

// ageText is how long ago a time was.
func ageText(now, then int64) string {
	if then == record.NoTimestamp {
		return "-"
	}
	d := time.Duration(now-then) * time.Millisecond
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}

func (o *transactionsOptions) end(dir string) error {
	if !o.yes {
		return UsageErrorf("--abort hides the records of a transaction for ever from readers of committed records: say --yes")
	}
	log, err := o.app.OpenToWrite(dir, seglog.Options{RefuseCut: true})
	if err != nil {
		return err
	}
	at, err := log.AbortTransaction(o.abort, nil)
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	out := o.app.Out
	if out.JSON() {
		return out.Emit(out.Object("aborted").Int("producer_id", o.abort).Int("marker_offset", at.LastOffset))
	}
	return out.Linef("aborted the transaction of producer %d: the marker is at offset %d", o.abort, at.LastOffset)
}
