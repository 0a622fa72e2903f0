//! Plans as parley/serdes/avro/native.py writes them, checked against the columns they are for.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};

use crate::columns::{Column, Layout};
use crate::datum::Datum;
use crate::decimal::Precision;
use crate::json::{Bits, Fields, Shape, MAX_FIELDS};
use crate::read::{Default, Node, Skip, Step, Symbol, Whole};
use crate::Unsupported;

const MAX_DEPTH: usize = 100;
const MAX_NODES: usize = 20_000;
const MAX_DIGITS: u32 = 76;

/// How much of a plan may still come: schemas of strangers can be made to explode.
struct Budget {
    nodes: usize,
    depth: usize,
}

impl Budget {
    fn within<T>(&mut self, work: impl FnOnce(&mut Self) -> PyResult<T>) -> PyResult<T> {
        if self.nodes == 0 || self.depth == 0 {
            return Err(Unsupported::new_err("the schema is too large, or nested too deep"));
        }
        self.nodes -= 1;
        self.depth -= 1;
        let made = work(self);
        self.depth += 1;
        made
    }
}

/// A plan, or a part of it: its name and what belongs to it.
struct Part<'py> {
    name: String,
    tuple: Bound<'py, PyTuple>,
}

impl<'py> Part<'py> {
    fn of(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let tuple = value.cast::<PyTuple>()?.clone();
        Ok(Part { name: tuple.get_item(0)?.extract()?, tuple })
    }

    fn get(&self, at: usize) -> PyResult<Bound<'py, PyAny>> {
        self.tuple.get_item(at)
    }

    fn wrong(&self, what: &str) -> PyErr {
        PyValueError::new_err(format!("a plan has {} {what}", self.name))
    }
}

pub fn layout(value: &Bound<'_, PyAny>) -> PyResult<Layout> {
    parse_layout(value, &mut Budget { nodes: MAX_NODES, depth: MAX_DEPTH })
}

fn parse_layout(value: &Bound<'_, PyAny>, budget: &mut Budget) -> PyResult<Layout> {
    budget.within(|budget| {
        let part = Part::of(value)?;
        Ok(match part.name.as_str() {
            "null" => Layout::Null,
            "bool" => Layout::Bool,
            "i8" => Layout::I8,
            "i16" => Layout::I16,
            "i32" => Layout::I32,
            "i64" => Layout::I64,
            "f32" => Layout::F32,
            "f64" => Layout::F64,
            "decimal128" => Layout::Decimal128,
            "decimal256" => Layout::Decimal256,
            "interval" => Layout::Interval,
            "var" => Layout::Var,
            "list" => Layout::List(Box::new(parse_layout(&part.get(1)?, budget)?)),
            "map" => Layout::Map(Box::new(parse_layout(&part.get(1)?, budget)?)),
            "struct" => {
                let fields = part.get(1)?.try_iter()?;
                Layout::Struct(fields.map(|one| parse_layout(&one?, budget)).collect::<PyResult<_>>()?)
            }
            _ => return Err(part.wrong("for a layout")),
        })
    })
}

/// Returns the shape of JSON texts, whose plan is of the name `json`.
pub fn shape(plan: &Bound<'_, PyAny>, layout: &Layout) -> PyResult<Option<Shape>> {
    let part = Part::of(plan)?;
    if part.name != "json" {
        return Ok(None);
    }
    parse_shape(&part.get(1)?, layout, &mut Budget { nodes: MAX_NODES, depth: MAX_DEPTH }).map(Some)
}

fn parse_shape(plan: &Bound<'_, PyAny>, layout: &Layout, budget: &mut Budget) -> PyResult<Shape> {
    budget.within(|budget| {
        let part = Part::of(plan)?;
        Ok(match (part.name.as_str(), layout) {
            ("text", Layout::Var) => Shape::Text,
            ("bytes", Layout::Var) => Shape::Bytes,
            ("any", Layout::Var) => Shape::Any,
            ("date", Layout::I32) => Shape::Date,
            ("timestamp", Layout::I64) => Shape::Timestamp,
            ("boolean", Layout::Bool) => Shape::Boolean,
            ("integer", Layout::I8) => Shape::Integer(Bits::I8),
            ("integer", Layout::I16) => Shape::Integer(Bits::I16),
            ("integer", Layout::I32) => Shape::Integer(Bits::I32),
            ("integer", Layout::I64) => Shape::Integer(Bits::I64),
            ("number", Layout::F32) => Shape::Number { short: true },
            ("number", Layout::F64) => Shape::Number { short: false },
            ("null", Layout::Null) => Shape::Null,
            ("array", Layout::List(inner)) => Shape::Array(Box::new(parse_shape(&part.get(1)?, inner, budget)?)),
            ("map", Layout::Map(inner)) => Shape::Map(Box::new(parse_shape(&part.get(1)?, inner, budget)?)),
            ("object", Layout::Struct(layouts)) => {
                let pairs = part.get(1)?.extract::<Vec<(String, Bound<'_, PyAny>)>>()?;
                if pairs.len() != layouts.len() {
                    return Err(part.wrong("of other fields"));
                }
                if pairs.len() > MAX_FIELDS {
                    return Err(Unsupported::new_err("an object of very many properties"));
                }
                let mut fields = Vec::with_capacity(pairs.len());
                for ((name, inner), layout) in pairs.into_iter().zip(layouts) {
                    fields.push((name, parse_shape(&inner, layout, budget)?));
                }
                Shape::Object(Fields::new(fields))
            }
            _ => return Err(part.wrong(&format!("for a column of {layout:?}"))),
        })
    })
}

pub fn node(plan: &Bound<'_, PyAny>, layout: &Layout) -> PyResult<Node> {
    parse_node(plan, layout, &mut Budget { nodes: MAX_NODES, depth: MAX_DEPTH })
}

fn parse_node(plan: &Bound<'_, PyAny>, layout: &Layout, budget: &mut Budget) -> PyResult<Node> {
    budget.within(|budget| {
        let part = Part::of(plan)?;
        Ok(match (part.name.as_str(), layout) {
            ("null", _) => Node::Null,
            ("boolean", Layout::Bool) => Node::Bool,
            ("int" | "long", _) => number(&part, layout)?,
            ("float", Layout::F32) => Node::Float,
            ("float", Layout::F64) => Node::FloatAsDouble,
            ("double", Layout::F64) => Node::Double,
            ("bytes", Layout::Var) => Node::Bytes,
            ("text", Layout::Var) => Node::Text,
            ("decimal", Layout::Decimal128 | Layout::Decimal256) => {
                let digits: u32 = part.get(1)?.extract()?;
                let shift: u32 = part.get(3)?.extract()?;
                let wide = *layout == Layout::Decimal256;
                if digits > if wide { MAX_DIGITS } else { 38 } || shift > digits {
                    return Err(part.wrong("of too many digits"));
                }
                Node::Decimal { size: part.get(2)?.extract()?, precision: Precision::new(digits, shift), wide }
            }
            ("fixed", Layout::Var) => Node::Fixed(part.get(1)?.extract()?),
            ("uuid", Layout::Var) => Node::Uuid,
            ("duration", Layout::Interval) => Node::Duration,
            ("enum", Layout::Var) => Node::Enum { name: part.get(1)?.extract()?, symbols: symbols(&part.get(2)?)? },
            ("list", Layout::List(inner)) => Node::List(Box::new(parse_node(&part.get(1)?, inner, budget)?)),
            ("map", Layout::Map(inner)) => Node::Map(Box::new(parse_node(&part.get(1)?, inner, budget)?)),
            ("branches", _) => {
                let branches = part.get(1)?.try_iter()?;
                Node::Branches(branches.map(|one| parse_node(&one?, layout, budget)).collect::<PyResult<_>>()?)
            }
            ("unreadable", _) => Node::Unreadable(part.get(1)?.extract()?),
            ("member", Layout::Struct(fields)) => {
                let place: usize = part.get(1)?.extract()?;
                let inner = fields.get(place).ok_or_else(|| part.wrong("that is not there"))?;
                Node::Member(place, Box::new(parse_node(&part.get(2)?, inner, budget)?))
            }
            ("record", Layout::Struct(fields)) => record(&part, fields, budget)?,
            _ => return Err(part.wrong(&format!("for a column of {layout:?}"))),
        })
    })
}

fn number(part: &Part, layout: &Layout) -> PyResult<Node> {
    let is_long = part.name == "long";
    let factor: i64 = part.get(1)?.extract()?;
    let whole = match (layout, factor) {
        (Layout::I32, 1) if !is_long => Whole::I32,
        (Layout::I64, 1) => Whole::I64,
        (Layout::F32, 1) => Whole::F32,
        (Layout::F64, 1) => Whole::F64,
        (Layout::I64, factor) => Whole::Times(factor),
        _ => return Err(part.wrong(&format!("for a column of {layout:?}"))),
    };
    Ok(if is_long { Node::Long(whole) } else { Node::Int(whole) })
}

fn symbols(listed: &Bound<'_, PyAny>) -> PyResult<Vec<Symbol>> {
    let pairs = listed.extract::<Vec<(Option<String>, String)>>()?;
    Ok(pairs.into_iter().map(|(symbol, why)| symbol.map(String::into_bytes).ok_or(why)).collect())
}

/// Each child has to be filled once, whatever the writer has.
fn record(part: &Part, fields: &[Layout], budget: &mut Budget) -> PyResult<Node> {
    let mut filled = vec![false; fields.len()];
    let mut child = |at: usize| match filled.get_mut(at) {
        Some(seen) if !*seen => {
            *seen = true;
            Ok(&fields[at])
        }
        _ => Err(part.wrong("with a field twice")),
    };
    let mut steps = Vec::new();
    for step in part.get(1)?.try_iter()? {
        let (at, inner): (Option<usize>, Bound<'_, PyAny>) = step?.extract()?;
        steps.push(match at {
            Some(at) => Step::Read(at, parse_node(&inner, child(at)?, budget)?),
            None => Step::Skip(skip(&inner, budget)?),
        });
    }
    let mut defaults = Vec::new();
    for one in part.get(2)?.try_iter()? {
        let (at, datum, inner): (usize, Vec<u8>, Bound<'_, PyAny>) = one?.extract()?;
        let layout = child(at)?;
        let node = parse_node(&inner, layout, budget)?;
        let mut tried = Datum::new(&datum);
        if node.read(&mut tried, &mut Column::new(layout, 1)).and_then(|()| tried.finish()).is_err() {
            return Err(Unsupported::new_err("a default is too large"));
        }
        defaults.push(Default { child: at, datum, node });
    }
    if filled.contains(&false) {
        // two of the reader's fields mean the same one of the writer's
        return Err(Unsupported::new_err("a field that nothing fills"));
    }
    Ok(Node::Record { steps, defaults })
}

fn skip(plan: &Bound<'_, PyAny>, budget: &mut Budget) -> PyResult<Skip> {
    budget.within(|budget| {
        let part = Part::of(plan)?;
        let mut all = || -> PyResult<Vec<Skip>> { part.get(1)?.try_iter()?.map(|one| skip(&one?, budget)).collect() };
        Ok(match part.name.as_str() {
            "null" => Skip::Nothing,
            "boolean" => Skip::Bool,
            "int" => Skip::Int,
            "long" => Skip::Long,
            "float" => Skip::Fixed(4),
            "double" => Skip::Fixed(8),
            "fixed" => Skip::Fixed(part.get(1)?.extract()?),
            "bytes" => Skip::Bytes,
            "branches" => Skip::Branches(all()?),
            "record" => Skip::Record(all()?),
            "list" => Skip::List(Box::new(skip(&part.get(1)?, budget)?)),
            "map" => Skip::Map(Box::new(skip(&part.get(1)?, budget)?)),
            _ => return Err(part.wrong("to pass over")),
        })
    })
}
