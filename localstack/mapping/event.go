package mapping

import (
	"bytes"
	"crypto/md5" // the checksum that SQS uses, nothing secret
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// encode makes the event of a batch, without Go's escapes for HTML, which would
// count against its limit.
func (m *Mapping) encode(batch []queue.Message) ([]byte, error) {
	e := events.SQSEvent{Records: make([]events.SQSMessage, len(batch))}
	for i, msg := range batch {
		e.Records[i] = m.record(msg)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func (m *Mapping) record(msg queue.Message) events.SQSMessage {
	r := events.SQSMessage{
		MessageId:     msg.ID,
		ReceiptHandle: msg.ReceiptHandle,
		Body:          msg.Body,
		Md5OfBody:     md5Hex([]byte(msg.Body)),
		Attributes: map[string]string{
			"ApproximateReceiveCount":          strconv.Itoa(msg.Receives),
			"ApproximateFirstReceiveTimestamp": strconv.FormatInt(msg.FirstReceived.UnixMilli(), 10),
			"SentTimestamp":                    strconv.FormatInt(msg.SentAt.UnixMilli(), 10),
			"SenderId":                         "000000000000",
		},
		MessageAttributes: make(map[string]events.SQSMessageAttribute, len(msg.Attributes)),
		EventSourceARN:    m.cfg.ARN,
		EventSource:       "aws:sqs",
		AWSRegion:         m.cfg.Region,
	}
	for name, value := range msg.Attributes {
		r.MessageAttributes[name] = events.SQSMessageAttribute{
			StringValue: &value, DataType: "String",
			StringListValues: []string{}, BinaryListValues: [][]byte{},
		}
	}
	if len(msg.Attributes) > 0 {
		r.Md5OfMessageAttributes = md5OfAttributes(msg.Attributes)
	}
	return r
}

// md5OfAttributes follows "Calculating the MD5 message digest for message
// attributes" in the SQS Developer Guide: in order of names, the name, the type
// and the value, each after its length in four bytes, the value also after a 1
// for "string".
func md5OfAttributes(attributes map[string]string) string {
	var buf []byte
	put := func(s string) {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(s))) // at most 1 MiB
		buf = append(buf, s...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		put(name)
		put("String")
		buf = append(buf, 1)
		put(attributes[name])
	}
	return md5Hex(buf)
}

func md5Hex(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}
